UPDATE operations SET
    status = 'succeeded', last_event = 'confirm', effect = 'applied', reason = '', in_doubt = false,
    provider_reference = $3, result_json = $4::json, resolves = 0, negative_reads = 0,
    lease_expires_at = NULL, next_attempt_at = NULL, window_ends_at = clock_timestamp() + retention,
    arguments_sealed = NULL, revision = revision + 1, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND idempotency_key = $2
RETURNING updated_at, window_ends_at
