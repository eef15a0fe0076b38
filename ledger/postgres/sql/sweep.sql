-- Removes finished operations past their window, with their reviews; the audit
-- record stays.
WITH due AS (
    SELECT o.tenant_id, o.idempotency_key, o.id FROM operations o
    WHERE o.sweep_at <= statement_timestamp()
      AND o.window_ends_at <= statement_timestamp() AND o.watch_until IS NULL
      AND (o.expired_key = 'reuse' OR EXISTS (
        SELECT FROM tombstones t
        WHERE t.tenant_id = o.tenant_id AND t.key_hash = sha256(convert_to(o.idempotency_key, 'UTF8'))
          AND t.created_at <= clock_timestamp() - @rest_us::bigint * interval '1 microsecond'))
    ORDER BY o.sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
), removed_reviews AS (
    DELETE FROM reviews r USING due WHERE r.tenant_id = due.tenant_id AND r.operation_id = due.id
), removed_holds AS (
    DELETE FROM holds h USING due WHERE h.tenant_id = due.tenant_id AND h.operation_id = due.id
)
DELETE FROM operations o USING due WHERE o.tenant_id = due.tenant_id AND o.idempotency_key = due.idempotency_key
