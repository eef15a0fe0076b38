-- Frees one key whose operation is past its window and whose action type lets
-- keys be used again.
WITH due AS (
    SELECT o.tenant_id, o.id FROM operations o
    WHERE o.tenant_id = @tenant AND o.id = @id::uuid
      AND o.window_ends_at <= clock_timestamp() AND o.watch_until IS NULL AND o.expired_key = 'reuse'
    FOR UPDATE
), removed_attempts AS (
    DELETE FROM attempts a USING due WHERE a.tenant_id = due.tenant_id AND a.operation_id = due.id
), removed_reviews AS (
    DELETE FROM reviews r USING due WHERE r.tenant_id = due.tenant_id AND r.operation_id = due.id
)
DELETE FROM operations o USING due WHERE o.tenant_id = due.tenant_id AND o.id = due.id
