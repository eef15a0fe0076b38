WITH former AS (
    SELECT key_id, actor, roles, expires_at - created_at AS life FROM api_keys
    WHERE tenant_id = @tenant AND key_id = @former
        AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
    FOR UPDATE
), ended AS (
    UPDATE api_keys k SET expires_at = LEAST(k.expires_at, clock_timestamp() + @overlap::interval)
    FROM former
    WHERE k.tenant_id = @tenant AND k.key_id = former.key_id
    RETURNING k.key_id
), made AS (
    INSERT INTO api_keys (tenant_id, key_id, secret_hash, actor, roles, expires_at)
    SELECT @tenant, @key_id, @hash, former.actor, former.roles, COALESCE(@expires::timestamptz, clock_timestamp() + former.life)
    FROM former JOIN ended USING (key_id)
    RETURNING tenant_id, key_id, secret_hash, actor, roles, created_at, expires_at, revoked_at
)
SELECT m.tenant_id, m.key_id, m.secret_hash, m.actor, m.roles, m.created_at, m.expires_at, m.revoked_at, t.active, true
FROM made m JOIN tenants t USING (tenant_id)
