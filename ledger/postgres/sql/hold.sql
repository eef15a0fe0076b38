-- The holds of a transaction's operations, after everything else of it: counters
-- and intents come last, or two transactions wait for each other. Of those that
-- were recorded now, the ones that got what they hold have their reviews and
-- events written; the others are removed again. What comes back are these.
WITH held AS MATERIALIZED (
    SELECT * FROM take_holds(@operations::held_row[])
), asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, expires_at, required_approvals, policy_version)
    SELECT o.tenant_id, r.id, o.id, o.idempotency_key, r.reason, r.detail, o.args_hash,
        CASE WHEN r.expires_us > 0 THEN clock_timestamp() + r.expires_us * interval '1 microsecond' END,
        r.required_approvals, r.policy_version
    FROM unnest(@reviews::review_row[]) AS r
    JOIN held h ON h.operation_id = r.operation_id AND h.admitted AND h.how = 'open'
    JOIN operations o ON o.tenant_id = h.tenant_id AND o.idempotency_key = h.idempotency_key AND o.id = h.operation_id AND o.status = 'needs_review'
), audited AS (
    -- As open.sql would have written it, with the chain that it has computed.
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, idempotency_key, event, from_status, to_status, attempt, epoch, args_hash, actor, context, chain)
    SELECT o.tenant_id, o.id, o.revision, o.created_at, o.idempotency_key, o.last_event, '', o.status, o.attempt, o.epoch, o.args_hash, o.requested_by,
        n.context::json, o.audit_chain
    FROM held h
    JOIN unnest(@operations::held_row[]) AS n ON n.id = h.operation_id
    JOIN operations o ON o.tenant_id = h.tenant_id AND o.idempotency_key = h.idempotency_key AND o.id = h.operation_id
    WHERE h.admitted AND h.how = 'open'
)
SELECT operation_id, charge, used, free_at, fence, holder_id::text, holder_key, quiet_until FROM held WHERE NOT admitted
