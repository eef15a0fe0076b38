-- Votes come one after the other, none after a decision, and none for another
-- policy than the one that asks now.
SELECT decision IS NULL AND reason = 'approval_required' AND (expires_at IS NULL OR expires_at > clock_timestamp())
    AND policy_version = @policy_version
FROM reviews WHERE tenant_id = @tenant AND id = @id FOR UPDATE
