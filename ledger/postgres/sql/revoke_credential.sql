UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE tenant_id = @tenant AND key_id = @key_id
