SELECT k.tenant_id, k.key_id, k.secret_hash, k.actor, k.roles, k.created_at, k.expires_at, k.revoked_at, t.active,
    k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
FROM api_keys k JOIN tenants t USING (tenant_id)
WHERE k.tenant_id = @tenant AND k.key_id = @key_id
