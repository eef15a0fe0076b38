SELECT tenant_id, action_type, provider, reason, set_by, set_at FROM kill_switches
WHERE tenant_id IN ('*', @tenant) ORDER BY tenant_id, action_type, provider
