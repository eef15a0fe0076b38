-- What becomes of the key of an operation that is past its window: 'reject' or
-- 'reuse'; empty while it still answers for its key.
SELECT CASE WHEN o.window_ends_at <= clock_timestamp() AND (o.expired_key = 'reject' OR o.watch_until IS NULL)
    THEN o.expired_key ELSE '' END
FROM operations o WHERE o.tenant_id = @tenant AND o.id = @id::uuid
