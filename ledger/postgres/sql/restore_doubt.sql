-- What is open in a restored ledger may have been sent, settled or decided since: it
-- is in doubt. What is in doubt already stays so, for the new reason. Left alone are
-- contradictions, which a person must look at anyway, and what has no arguments any
-- more, so that nothing can be looked for or sent.
WITH t AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), open AS MATERIALIZED (
    SELECT o.tenant_id, o.idempotency_key, o.id, o.status AS was,
        CASE WHEN o.status = 'unknown' THEN 'evidence' ELSE 'doubt' END AS event,
        CASE WHEN o.status = 'running' THEN 'restored' END AS outcome
    FROM operations o
    WHERE o.status IN ('pending', 'running', 'unknown', 'needs_review') AND o.arguments_sealed IS NOT NULL
      AND o.reason NOT IN ('contradicted', 'key_mismatch')
      AND NOT EXISTS (
        SELECT FROM reviews r
        WHERE r.tenant_id = o.tenant_id AND r.operation_id = o.id AND r.decision IS NULL AND r.reason = 'contradicted')
), moved AS (
    UPDATE operations o SET
        status = 'unknown', reason = 'restored', in_doubt = true,
        last_event = CASE WHEN n.was = 'unknown' THEN o.last_event ELSE 'doubt' END,
        effect = CASE WHEN o.effect = 'applied' THEN 'applied' ELSE 'unknown' END,
        resolves = 0, negative_reads = 0, doubted_at = t.now, lease = o.lease + 1, lease_expires_at = NULL, next_attempt_at = t.now,
        -- When it may have been sent, for those who look.
        first_sent_at = least(o.first_sent_at, @lost_from), last_sent_at = greatest(o.last_sent_at, @lost_until),
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, n.event, n.was, 'unknown', o.attempt, o.epoch,
            o.args_hash, @by, @detail, n.outcome, NULL, NULL, NULL),
        revision = o.revision + 1, updated_at = t.now
    FROM open n, t WHERE o.tenant_id = n.tenant_id AND o.idempotency_key = n.idempotency_key AND o.id = n.id
    RETURNING o.tenant_id, o.id, o.revision, o.updated_at, o.status, o.attempt, o.epoch, o.args_hash, o.audit_chain, n.was, n.event, n.outcome
), answered AS (
    UPDATE reviews r SET decision = 'cancelled', decided_by = @by, note = @detail, decided_at = t.now
    FROM moved m, t WHERE m.was = 'needs_review' AND r.tenant_id = m.tenant_id AND r.operation_id = m.id AND r.decision IS NULL
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, outcome, chain)
    SELECT tenant_id, id, revision, updated_at, event, was, status, attempt, epoch, args_hash, @by, @detail, outcome, audit_chain FROM moved
)
SELECT was, count(*) FROM moved GROUP BY was
