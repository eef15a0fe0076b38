-- The tenants of whom something was observed.
SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT FROM observations o WHERE o.tenant_id = t.tenant_id) ORDER BY t.tenant_id
