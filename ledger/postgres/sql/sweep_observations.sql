-- Forgets requests that were observed long ago.
WITH due AS (
    SELECT tenant_id, id FROM observations
    WHERE observed_at <= statement_timestamp() - @keep_us::bigint * interval '1 microsecond'
    ORDER BY observed_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM observations o USING due WHERE o.tenant_id = due.tenant_id AND o.id = due.id
