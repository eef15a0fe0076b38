SELECT /* operation columns */ FROM operations o WHERE o.tenant_id = @tenant AND o.id = @id::uuid
