-- Leases that ran out: their workers may have sent, so the outcomes are unknown.
-- Those of a lease that still run, because they have more time or are locked at
-- this moment, stay in it.
WITH t AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), due AS (
    DELETE FROM leases l USING (
        SELECT tenant_id, id FROM leases
        WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT @limit FOR UPDATE SKIP LOCKED) d
    WHERE l.tenant_id = d.tenant_id AND l.id = d.id
    RETURNING l.tenant_id, l.id, l.idempotency_keys
), named AS MATERIALIZED (
    SELECT due.tenant_id, due.id AS lease_id, k.idempotency_key FROM due, unnest(due.idempotency_keys) AS k (idempotency_key)
    ORDER BY 1, 3
), overdue AS (
    -- A row that is locked is being settled.
    SELECT o.tenant_id, o.idempotency_key FROM t, named n
    JOIN operations o ON o.tenant_id = n.tenant_id AND o.idempotency_key = n.idempotency_key
    WHERE o.status = 'running' AND o.lease_expires_at <= t.now
    FOR UPDATE OF o SKIP LOCKED
), moved AS (
    UPDATE operations o SET
        status = 'unknown', last_event = 'doubt', effect = 'unknown', reason = 'lease_expired', in_doubt = true,
        resolves = 0, negative_reads = 0, doubted_at = t.now, lease_expires_at = NULL, next_attempt_at = t.now,
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'doubt', 'running', 'unknown', o.attempt, o.epoch,
            o.args_hash, 'reconciler', 'the worker did not report before its lease ran out', 'lease_expired', NULL, NULL, NULL),
        revision = o.revision + 1, updated_at = t.now
    FROM overdue d, t WHERE o.tenant_id = d.tenant_id AND o.idempotency_key = d.idempotency_key
    RETURNING o.*
), kept AS (
    INSERT INTO leases (tenant_id, id, expires_at, idempotency_keys)
    SELECT n.tenant_id, n.lease_id, min(greatest(o.lease_expires_at, t.now + interval '1 second')), array_agg(o.idempotency_key)
    FROM t, named n JOIN operations o ON o.tenant_id = n.tenant_id AND o.idempotency_key = n.idempotency_key
    WHERE o.status = 'running' AND o.id NOT IN (SELECT id FROM moved)
    GROUP BY n.tenant_id, n.lease_id
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, outcome, chain)
    SELECT tenant_id, id, revision, updated_at, 'doubt', 'running', status, attempt, epoch, args_hash, 'reconciler',
        'the worker did not report before its lease ran out', 'lease_expired', audit_chain FROM moved
)
SELECT /* operation columns */ FROM moved o
