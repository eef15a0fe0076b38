SELECT arguments_sealed FROM operations WHERE tenant_id = @tenant AND idempotency_key = @key AND id = @id::uuid
