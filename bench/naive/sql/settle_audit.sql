INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, outcome, at, reference, chain)
VALUES ($1, $2, $3, 'confirm', 'running', 'succeeded', $4, $5, $6, $7, $8, nullif($9, ''), $10, $11, $12)
