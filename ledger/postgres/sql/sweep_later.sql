-- Puts off those that were to be swept and cannot be yet: settled late, not
-- settled at all, or watched. Otherwise each sweep would read them again.
WITH due AS (
    SELECT o.tenant_id, o.idempotency_key FROM operations o
    WHERE o.sweep_at <= (SELECT clock_timestamp())
      AND (o.window_ends_at IS NULL OR o.window_ends_at > (SELECT clock_timestamp()) OR o.watch_until IS NOT NULL)
    ORDER BY o.sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
UPDATE operations o SET
    sweep_at = CASE WHEN o.window_ends_at > clock_timestamp() THEN o.window_ends_at ELSE clock_timestamp() + interval '1 hour' END,
    revision = o.revision + 1
FROM due WHERE o.tenant_id = due.tenant_id AND o.idempotency_key = due.idempotency_key
