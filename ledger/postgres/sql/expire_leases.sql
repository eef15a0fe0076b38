-- A lease that ran out: the worker may have sent, so the outcome is unknown.
WITH due AS (
    SELECT tenant_id, id FROM operations
    WHERE status = 'running' AND lease_expires_at <= (SELECT clock_timestamp())
    ORDER BY lease_expires_at LIMIT @limit FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE operations o SET
        status = 'unknown', last_event = 'doubt', effect = 'unknown', reason = 'lease_expired', in_doubt = true,
        resolves = 0, negative_reads = 0, doubted_at = clock_timestamp(), lease_expires_at = NULL, next_attempt_at = clock_timestamp(),
        revision = o.revision + 1, updated_at = clock_timestamp()
    FROM due WHERE o.tenant_id = due.tenant_id AND o.id = due.id
    RETURNING o.*
), ended AS (
    UPDATE attempts a SET ended_at = clock_timestamp(), outcome = 'lease_expired', evidence = 'the worker did not report before its lease ran out'
    FROM moved m WHERE a.tenant_id = m.tenant_id AND a.operation_id = m.id AND a.number = m.attempt AND a.ended_at IS NULL
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail)
    SELECT tenant_id, id, revision, 'doubt', 'running', status, attempt, epoch, args_hash, 'reconciler', 'lease expired' FROM moved
)
SELECT /* operation columns */ FROM moved o
