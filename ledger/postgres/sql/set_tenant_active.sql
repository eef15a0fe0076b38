UPDATE tenants SET active = @active WHERE tenant_id = @tenant
