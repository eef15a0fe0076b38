INSERT INTO audit_events (tenant_id, operation_id, sequence, idempotency_key, event, from_status, to_status, attempt, epoch, args_hash, actor, at, chain, context)
VALUES ($1, $2, 1, $3, 'claim', '', 'running', 1, 0, $4, $5, $6, $7, $8::text::json)
