-- Takes the finished operations whose late landing is to be looked for.
WITH due AS (
    SELECT tenant_id, idempotency_key FROM operations
    WHERE watch_next_at <= statement_timestamp()
    ORDER BY watch_next_at LIMIT @limit FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE operations o SET
        watch_next_at = clock_timestamp() + @gap_us::bigint * interval '1 microsecond',
        revision = o.revision + 1
    FROM due WHERE o.tenant_id = due.tenant_id AND o.idempotency_key = due.idempotency_key
    RETURNING o.*
)
SELECT /* operation columns */ FROM leased o
