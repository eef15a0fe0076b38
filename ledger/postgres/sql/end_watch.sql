UPDATE operations SET
    watch_until = NULL, watch_next_at = NULL, arguments_sealed = NULL, revision = revision + 1
WHERE tenant_id = @tenant AND idempotency_key = @key AND id = @id::uuid AND status IN ('succeeded', 'failed') AND watch_until <= clock_timestamp()
