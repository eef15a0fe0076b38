SELECT id::text, lost_from, lost_until, begun_at, begun_by, ended_at, coalesce(ended_by, ''),
    (SELECT coalesce(json_agg(json_build_object('tenant', c.tenant_id, 'action_type', c.action_type, 'reason', c.reason, 'by', c.cleared_by, 'at', c.cleared_at)
            ORDER BY c.cleared_at, c.tenant_id, c.action_type), '[]')
        FROM restore_clearances c WHERE c.restore_id = r.id)
FROM restores r WHERE tenant_id = '*' AND (ended_at IS NULL OR NOT @in_force) ORDER BY begun_at DESC LIMIT 100
