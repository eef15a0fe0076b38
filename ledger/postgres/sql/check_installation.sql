SELECT provider_key_fingerprint = @fingerprint, to_regclass('leases') IS NOT NULL FROM installation WHERE tenant_id = '*'
