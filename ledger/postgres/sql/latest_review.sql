SELECT id::text, reason, detail, opened_at, expires_at, coalesce(decision, ''), coalesce(decided_by, ''), coalesce(note, ''), decided_at,
    required_approvals, policy_version,
    (SELECT json_agg(json_build_object('By', a.approver, 'Note', a.note, 'At', a.at) ORDER BY a.at, a.approver)
        FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.review_id = r.id)
FROM reviews r WHERE tenant_id = @tenant AND operation_id = @id::uuid ORDER BY id DESC LIMIT 1
