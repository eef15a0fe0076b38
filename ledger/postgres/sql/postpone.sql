-- Not resolved yet: give the row back and come again later.
UPDATE operations o SET
    reason = @reason, negative_reads = @negative_reads, resolves = greatest(o.resolves - @untried::int, 0),
    provider_reference = coalesce(o.provider_reference, nullif(@reference, '')),
    lease_expires_at = NULL,
    next_attempt_at = clock_timestamp() + @delay_us::bigint * interval '1 microsecond',
    revision = o.revision + 1, updated_at = clock_timestamp()
WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid AND o.status = @from AND o.status IN ('pending', 'unknown') AND o.attempt = @attempt AND o.lease = @lease
RETURNING /* operation columns */
