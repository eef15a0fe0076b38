-- A claim whose answer was lost, if it is in the ledger and still the latest.
SELECT /* operation columns */ FROM operations o
WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid AND o.attempt = @number AND o.claim_id = @claim_id::uuid AND o.status = 'running'
