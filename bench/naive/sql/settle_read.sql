SELECT status, id::text, attempt, epoch, coalesce(provider_reference, ''), revision
FROM operations WHERE tenant_id = $1 AND idempotency_key = $2 FOR UPDATE
