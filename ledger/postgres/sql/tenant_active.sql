SELECT active FROM tenants WHERE tenant_id = @tenant
