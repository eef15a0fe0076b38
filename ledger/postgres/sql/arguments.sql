SELECT arguments_sealed FROM operations WHERE tenant_id = @tenant AND id = @id::uuid
