INSERT INTO leases (tenant_id, id, expires_at, idempotency_keys) VALUES ($1, $2, $3, ARRAY[$4::text])
