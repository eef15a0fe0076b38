-- For a tenant that is not there it would stop nothing, and nobody would notice.
INSERT INTO kill_switches (tenant_id, action_type, provider, reason, set_by)
SELECT @tenant::text, @action_type::text, @provider::text, @reason::text, @set_by::text
WHERE @tenant::text = '*' OR EXISTS (SELECT FROM tenants WHERE tenant_id = @tenant::text)
ON CONFLICT (tenant_id, action_type, provider) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by, set_at = excluded.set_at
