-- Forgets batches that nobody adds again.
WITH due AS (
    SELECT tenant_id, batch_id FROM tally_batches
    WHERE added_at <= statement_timestamp() - @keep_us::bigint * interval '1 microsecond'
    ORDER BY added_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM tally_batches b USING due WHERE b.tenant_id = due.tenant_id AND b.batch_id = due.batch_id
