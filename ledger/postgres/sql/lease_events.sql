-- Takes the events that are due, row by row, for one reconciler.
WITH due AS (
    SELECT tenant_id, provider, event_id FROM webhook_inbox
    WHERE next_look_at <= statement_timestamp()
    ORDER BY next_look_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
UPDATE webhook_inbox e SET
    looks = e.looks + 1, next_look_at = clock_timestamp() + @lease_us::bigint * interval '1 microsecond'
FROM due WHERE e.tenant_id = due.tenant_id AND e.provider = due.provider AND e.event_id = due.event_id
RETURNING e.tenant_id, e.provider, e.event_id, coalesce(e.operation_id::text, ''), coalesce(e.reference, ''), e.outcome,
    e.receipt_json::text, e.failure_json::text, e.detail, e.looks, (extract(epoch FROM clock_timestamp() - e.received_at) * 1000000)::bigint
