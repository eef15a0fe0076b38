-- Frees one key whose operation is past its window and whose action type lets
-- keys be used again.
WITH due AS (
    SELECT o.tenant_id, o.idempotency_key, o.id FROM operations o
    WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid
      AND o.window_ends_at <= clock_timestamp() AND o.watch_until IS NULL AND o.expired_key = 'reuse'
    FOR UPDATE
), removed_reviews AS (
    DELETE FROM reviews r USING due WHERE r.tenant_id = due.tenant_id AND r.operation_id = due.id
), removed_holds AS (
    DELETE FROM holds h USING due WHERE h.tenant_id = due.tenant_id AND h.operation_id = due.id
)
DELETE FROM operations o USING due WHERE o.tenant_id = due.tenant_id AND o.idempotency_key = due.idempotency_key
