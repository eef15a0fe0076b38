-- Tokens that their issuer made for one use, as long as they would be good for
-- another: a second use is refused on every replica.
--
-- The program before this migration does not know the table, and takes no such
-- tokens. This one's runs on the schema before: without the table nobody comes in
-- with one.

BEGIN;

CREATE TABLE used_tokens (
    tenant_id    text COLLATE "C" NOT NULL,
    -- SHA-256 over issuer and jti: neither is for who reads the database.
    token_hash   bytea       NOT NULL CHECK (octet_length(token_hash) = 32),
    usable_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, token_hash)
);

CREATE INDEX used_tokens_over ON used_tokens (tenant_id, usable_until);

-- Locking rows, so that two deletes do not wait for each other, wants the right to
-- update a column.
GRANT SELECT, INSERT, DELETE ON used_tokens TO onceward_serve;
GRANT UPDATE (usable_until) ON used_tokens TO onceward_serve;

COMMIT;
