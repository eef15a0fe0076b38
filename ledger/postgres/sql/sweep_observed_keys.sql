-- Forgets keys that were taken long ago.
WITH due AS (
    SELECT tenant_id, idempotency_key FROM observed_keys
    WHERE seen_at <= statement_timestamp() - @keep_us::bigint * interval '1 microsecond'
    ORDER BY seen_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM observed_keys k USING due WHERE k.tenant_id = due.tenant_id AND k.idempotency_key = due.idempotency_key
