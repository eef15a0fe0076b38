INSERT INTO tenants (tenant_id) VALUES (@tenant) ON CONFLICT DO NOTHING
