-- The tenants of the installation: few, and on no request's path.
SELECT tenant_id, active, created_at FROM tenants ORDER BY tenant_id
