SELECT number, started_at, ended_at, coalesce(outcome, ''), coalesce(evidence, '')
FROM attempts WHERE tenant_id = @tenant AND operation_id = @id::uuid ORDER BY number
