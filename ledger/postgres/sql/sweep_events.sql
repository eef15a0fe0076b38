-- Forgets events that were weighed long ago.
WITH due AS (
    SELECT tenant_id, provider, event_id FROM webhook_inbox
    WHERE processed_at <= statement_timestamp() - @keep_us::bigint * interval '1 microsecond'
    ORDER BY processed_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM webhook_inbox e USING due
WHERE e.tenant_id = due.tenant_id AND e.provider = due.provider AND e.event_id = due.event_id
