-- Another policy version asks: what was approved under the one before does not
-- count. Nothing moves; the revision does, so that a decision that is under way at
-- this moment is fenced off.
WITH noted AS (
    UPDATE operations o SET
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'evidence', o.status, o.status, o.attempt, o.epoch,
            o.args_hash, 'policy', @detail::text, NULL, NULL, NULL, NULL),
        revision = o.revision + 1, updated_at = t.now
    FROM (SELECT clock_timestamp() AS now) t, reviews r
    WHERE r.tenant_id = @tenant AND r.id = @id AND r.decision IS NULL AND r.reason = 'approval_required'
      AND (r.policy_version <> @policy_version OR r.required_approvals <> @required)
      AND o.tenant_id = r.tenant_id AND o.idempotency_key = r.idempotency_key AND o.id = r.operation_id AND o.status = 'needs_review'
    RETURNING o.*
)
INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, chain)
SELECT tenant_id, id, revision, updated_at, 'evidence', status, status, attempt, epoch, args_hash, 'policy', @detail::text, audit_chain FROM noted
