-- The first process to serve decides; the others compare (check_installation.sql).
INSERT INTO installation (provider_key_fingerprint) VALUES (@fingerprint) ON CONFLICT DO NOTHING
