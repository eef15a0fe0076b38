-- Of each restore that is in force, so that a later one is not cleared with it. To
-- clear again changes nothing.
INSERT INTO restore_clearances (tenant_id, restore_id, action_type, reason, cleared_by)
SELECT @tenant, id, @action_type, @reason, @by FROM restores WHERE tenant_id = '*' AND ended_at IS NULL
ON CONFLICT (tenant_id, restore_id, action_type) DO UPDATE SET reason = excluded.reason, cleared_by = excluded.cleared_by, cleared_at = excluded.cleared_at
