SELECT provider_key_fingerprint = @fingerprint FROM installation WHERE tenant_id = '*'
