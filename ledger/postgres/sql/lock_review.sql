-- Votes come one after the other, and none after a decision.
SELECT decision IS NULL AND reason = 'approval_required' AND (expires_at IS NULL OR expires_at > clock_timestamp())
FROM reviews WHERE tenant_id = @tenant AND id = @id FOR UPDATE
