-- By its id: the first event of the audit record has the key.
SELECT /* operation columns */ FROM audit_events e
JOIN operations o ON o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key AND o.id = e.operation_id
WHERE e.tenant_id = @tenant AND e.operation_id = @id::uuid AND e.sequence = 1
