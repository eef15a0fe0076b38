-- What is counted, and what is seen in the stage observe. Neither is a part of an
-- operation: both can be lost without harm, and go when they are old.
--
-- The program before this migration does not know the tables.

BEGIN;

-- Requests of one kind in one hour.
CREATE TABLE tallies (
    tenant_id   text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL,
    action_type text COLLATE "C" NOT NULL,
    what        text COLLATE "C" NOT NULL CHECK (what IN ('executed', 'duplicate', 'refused')),
    cause       text COLLATE "C" NOT NULL,
    stated      boolean     NOT NULL,
    currency    text COLLATE "C" NOT NULL,
    count       bigint      NOT NULL CHECK (count > 0),
    amount      numeric     NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (tenant_id, hour, action_type, what, cause, stated, currency)
) WITH (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 80);

CREATE INDEX tallies_hour ON tallies (hour);

-- The batches that were added to them, so that one whose answer was lost is not
-- added twice.
CREATE TABLE tally_batches (
    tenant_id text COLLATE "C" NOT NULL,
    batch_id  uuid        NOT NULL,
    added_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, batch_id)
);

CREATE INDEX tally_batches_added ON tally_batches (added_at);

-- Requests in the stage observe, none of which became an operation.
CREATE TABLE observations (
    tenant_id       text COLLATE "C" NOT NULL,
    id              uuid        NOT NULL,
    observed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor           text        NOT NULL,
    action_type     text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL CHECK (octet_length(idempotency_key) <= 255),
    args_hash       bytea       NOT NULL CHECK (octet_length(args_hash) = 32),
    run_json        json        NOT NULL,
    outcome         text        NOT NULL CHECK (outcome IN ('execute', 'duplicate', 'mismatch', 'require_approval', 'refused', 'invalid')),
    verdict_json    json        NOT NULL,
    amount          numeric CHECK (amount >= 0),
    currency        text        NOT NULL,
    charges_json    json,
    fences_json     json,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX observations_in_time ON observations (tenant_id, observed_at, id);
CREATE INDEX observations_age ON observations (observed_at);

-- The keys that those would have taken.
CREATE TABLE observed_keys (
    tenant_id       text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    action_type     text COLLATE "C" NOT NULL,
    args_hash       bytea       NOT NULL CHECK (octet_length(args_hash) = 32),
    observation_id  uuid        NOT NULL,
    seen_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 80);

CREATE INDEX observed_keys_age ON observed_keys (seen_at);

GRANT SELECT, INSERT, DELETE ON tallies, tally_batches, observations, observed_keys TO onceward_serve;
GRANT UPDATE (count, amount) ON tallies TO onceward_serve;
-- Who looks at a key, or sweeps, locks rows, which wants the right to change a
-- column. Nothing changes one.
GRANT UPDATE (observation_id) ON observed_keys TO onceward_serve;
GRANT UPDATE (observed_at) ON observations TO onceward_serve;
GRANT UPDATE (added_at) ON tally_batches TO onceward_serve;
GRANT SELECT ON tallies, observations TO onceward_read;

COMMIT;
