SELECT /* operation columns */ FROM operations o WHERE o.tenant_id = @tenant AND o.idempotency_key = @key
