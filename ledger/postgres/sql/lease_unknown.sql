-- Takes the unknown operations that are due, row by row, for one reconciler.
WITH due AS (
    SELECT tenant_id, idempotency_key FROM operations
    WHERE status = 'unknown' AND next_attempt_at <= statement_timestamp()
      AND (lease_expires_at IS NULL OR lease_expires_at <= clock_timestamp())
    ORDER BY next_attempt_at LIMIT @limit FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE operations o SET
        lease = o.lease + 1, resolves = o.resolves + 1,
        lease_expires_at = clock_timestamp() + @lease_us::bigint * interval '1 microsecond',
        revision = o.revision + 1
    FROM due WHERE o.tenant_id = due.tenant_id AND o.idempotency_key = due.idempotency_key
    RETURNING o.*
)
SELECT /* operation columns */ FROM leased o
