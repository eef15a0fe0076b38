INSERT INTO api_keys (tenant_id, key_id, secret_hash, actor, roles, expires_at)
VALUES (@tenant, @key_id, @hash, @actor, @roles, @expires)
