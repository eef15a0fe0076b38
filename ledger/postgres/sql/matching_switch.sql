-- The one that stops most is named.
SELECT tenant_id, action_type, provider, reason, set_by, set_at FROM kill_switches
WHERE tenant_id IN ('*', @tenant) AND action_type IN ('', @action_type) AND provider IN ('', @provider)
ORDER BY tenant_id, action_type, provider LIMIT 1
