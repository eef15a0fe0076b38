-- Twenty for each one that comes: what is over goes faster than it grows.
WITH forgotten AS (
    DELETE FROM used_tokens
    WHERE tenant_id = @tenant AND token_hash IN (
        SELECT token_hash FROM used_tokens
        WHERE tenant_id = @tenant AND usable_until < clock_timestamp() AND token_hash <> @hash
        ORDER BY usable_until
        LIMIT 20
        FOR UPDATE SKIP LOCKED)
)
INSERT INTO used_tokens (tenant_id, token_hash, usable_until)
VALUES (@tenant, @hash, @until)
ON CONFLICT (tenant_id, token_hash) DO NOTHING
