-- What lets many operations share a transaction: one index per operation that
-- is not in order of time, settlements that touch no index, audit history by
-- day. docs/decisions/009 says what each piece costs and what was rejected.
--
-- The program before this migration does not run on this schema, nor this one's
-- on the schema before: nothing was released with it.

BEGIN;

-- Keys are compared byte by byte, and the order in which a batch takes its rows
-- is that of the program.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_tenant_id_fkey;
ALTER TABLE tenants ALTER COLUMN tenant_id TYPE text COLLATE "C";
ALTER TABLE api_keys ALTER COLUMN tenant_id TYPE text COLLATE "C";
ALTER TABLE api_keys ADD FOREIGN KEY (tenant_id) REFERENCES tenants;
ALTER TABLE tombstones ALTER COLUMN tenant_id TYPE text COLLATE "C";

-- Operations -----------------------------------------------------------------

DROP TRIGGER operations_guard ON operations;
DROP INDEX operations_lease_due, operations_next_due, operations_window_end;

ALTER TABLE operations
    ALTER COLUMN tenant_id TYPE text COLLATE "C",
    ALTER COLUMN idempotency_key TYPE text COLLATE "C",
    -- Of the latest attempt: to find a claim again whose answer was lost, and
    -- what the provider knows us by.
    ADD COLUMN claim_id     uuid,
    ADD COLUMN provider_key text,
    -- When it may be past its window at the earliest. It is fixed when the
    -- operation is recorded, in steps, so that its index grows at one end, holds
    -- equal values once, and does not keep a settlement from staying on its page.
    ADD COLUMN sweep_at     timestamptz,
    DROP CONSTRAINT operations_pkey,
    DROP CONSTRAINT operations_key;
UPDATE operations o SET
    sweep_at = date_bin('15 minutes', same.created_at + same.retention, timestamptz '2000-01-01 00:00Z') + interval '15 minutes',
    claim_id = a.claim_id, provider_key = a.provider_key
FROM operations same LEFT JOIN attempts a ON a.tenant_id = same.tenant_id AND a.operation_id = same.id AND a.number = same.attempt
WHERE o.tenant_id = same.tenant_id AND o.id = same.id;
ALTER TABLE operations
    ALTER COLUMN sweep_at SET NOT NULL,
    -- The one index that every operation is in at random. An id is found through
    -- the first event of its audit record.
    ADD PRIMARY KEY (tenant_id, idempotency_key),
    DROP CONSTRAINT operations_running,
    ADD CONSTRAINT operations_running CHECK (status <> 'running'
        OR (attempt > 0 AND lease_expires_at IS NOT NULL AND request_hash IS NOT NULL AND claim_id IS NOT NULL AND provider_key IS NOT NULL)),
    -- Sealed bytes do not compress.
    ALTER COLUMN arguments_sealed SET STORAGE EXTERNAL;
ALTER TABLE operations SET (
    -- Room for the settlement beside the claim.
    fillfactor = 50,
    -- Large receipts and arguments leave the row.
    toast_tuple_target = 1024,
    -- A vacuum is due after a part that stays small when the table is large.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05
);

-- The reconciler's questions. No column of them changes where an operation is
-- claimed and settled without trouble, or only the page of the row would know.
CREATE INDEX operations_next_due ON operations (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX operations_sweep_due ON operations (sweep_at);

-- Leases ---------------------------------------------------------------------

-- Which operations may be running: one row for each tenant of a claiming
-- transaction. It is not touched when they are settled. When the first lease of
-- it ends somebody looks which of them still run.
CREATE TABLE leases (
    tenant_id        text COLLATE "C" NOT NULL,
    id               uuid        NOT NULL,
    expires_at       timestamptz NOT NULL,
    idempotency_keys text[]      NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX leases_due ON leases (expires_at);
INSERT INTO leases SELECT tenant_id, gen_random_uuid(), min(lease_expires_at), array_agg(idempotency_key)
    FROM operations WHERE status = 'running' GROUP BY tenant_id;

-- Reviews --------------------------------------------------------------------

ALTER TABLE reviews
    ALTER COLUMN tenant_id TYPE text COLLATE "C",
    ADD COLUMN idempotency_key text COLLATE "C";
UPDATE reviews r SET idempotency_key = o.idempotency_key
    FROM operations o WHERE o.tenant_id = r.tenant_id AND o.id = r.operation_id;
ALTER TABLE reviews ALTER COLUMN idempotency_key SET NOT NULL;

-- Audit record ---------------------------------------------------------------

-- The first instant of a day as the smallest time-ordered UUID of that day
-- (RFC 9562, version 7: 48 bits of milliseconds lead).
CREATE FUNCTION first_uuid_of(day date) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN rpad(lpad(to_hex((extract(epoch FROM day::timestamp AT TIME ZONE 'UTC') * 1000)::bigint), 12, '0'), 32, '0')::uuid;

ALTER TABLE audit_events RENAME TO audit_events_before;
ALTER TABLE audit_events_before RENAME CONSTRAINT audit_events_pkey TO audit_events_before_pkey;

-- By the day on which the operation was recorded, so that history goes by whole
-- partitions. The first event of an operation has its key; an event that ends
-- an attempt has its outcome.
CREATE TABLE audit_events (
    tenant_id       text COLLATE "C" NOT NULL,
    operation_id    uuid        NOT NULL,
    sequence        bigint      NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    event           text        NOT NULL,
    from_status     text        NOT NULL,
    to_status       text        NOT NULL,
    attempt         integer     NOT NULL,
    epoch           integer     NOT NULL,
    args_hash       bytea       NOT NULL,
    actor           text        NOT NULL,
    detail          text        NOT NULL DEFAULT '',
    outcome         text        CHECK (outcome <> ''),
    idempotency_key text COLLATE "C" CHECK ((sequence = 1) OR idempotency_key IS NULL),
    PRIMARY KEY (tenant_id, operation_id, sequence)
) PARTITION BY RANGE (operation_id);

-- For ids of a day that has no partition: a clock that is wrong must not stop
-- claims.
CREATE TABLE audit_events_default PARTITION OF audit_events DEFAULT;

-- Makes the partitions of some days, those there are excepted, and returns how
-- many it made. It runs as the owner, so that the serving role can ask for the
-- days to come without being able to change anything.
CREATE FUNCTION audit_events_prepare(first_day date, last_day date) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    day  date;
    name text;
    made integer := 0;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'no more than 400 days at once';
    END IF;
    FOR day IN SELECT generate_series(first_day, last_day, interval '1 day')::date LOOP
        name := 'audit_events_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
        -- Replicas ask at the same time.
        PERFORM pg_advisory_xact_lock(hashtext('onceward audit_events_prepare'));
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE public.%I (LIKE public.audit_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
            -- To attach it keeps nobody from writing.
            EXECUTE format('ALTER TABLE public.audit_events ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                name, public.first_uuid_of(day), public.first_uuid_of(day + 1));
            made := made + 1;
        EXCEPTION WHEN check_violation THEN
            RAISE WARNING 'events of % are in audit_events_default already and stay there', day;
        END;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION audit_events_prepare FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_events_prepare TO onceward_serve;

SELECT audit_events_prepare(greatest(current_date - 392, coalesce((SELECT min(created_at)::date FROM operations), current_date) - 1), current_date + 7);

INSERT INTO audit_events
SELECT e.tenant_id, e.operation_id, e.sequence, e.at, e.event, e.from_status, e.to_status, e.attempt, e.epoch, e.args_hash, e.actor,
    e.detail, a.outcome, CASE WHEN e.sequence = 1 THEN o.idempotency_key END
FROM audit_events_before e
LEFT JOIN attempts a ON a.tenant_id = e.tenant_id AND a.operation_id = e.operation_id AND a.number = e.attempt
    AND e.from_status = 'running' AND e.to_status <> 'running'
LEFT JOIN operations o ON o.tenant_id = e.tenant_id AND o.id = e.operation_id;
DROP TABLE audit_events_before, attempts;

-- Every provider call, from the record: begun by a claim, ended by the first
-- event that has its outcome.
CREATE VIEW attempts WITH (security_barrier) AS
SELECT c.tenant_id, c.operation_id, c.attempt AS number, c.event, c.epoch, c.at AS started_at,
    e.at AS ended_at, e.outcome, e.detail AS evidence
FROM audit_events c
LEFT JOIN LATERAL (
    SELECT at, outcome, detail FROM audit_events e
    WHERE e.tenant_id = c.tenant_id AND e.operation_id = c.operation_id AND e.attempt = c.attempt AND e.outcome IS NOT NULL
    ORDER BY e.sequence LIMIT 1) e ON true
WHERE c.event IN ('claim', 'replay');

-- The guard ------------------------------------------------------------------

-- The same rules as before. They are looked at after the change, which rolls
-- back when one is broken, and only where the change is not plainly one of the
-- two that nearly all are: a new operation that is claimed, and the receipt of a
-- running one.
CREATE TRIGGER operations_guard_insert AFTER INSERT ON operations FOR EACH ROW
    WHEN ((NEW.last_event, NEW.status, NEW.revision, NEW.attempt, NEW.epoch) IS DISTINCT FROM ('claim', 'running', 1::bigint, 1, 0))
    EXECUTE FUNCTION operations_guard();
CREATE TRIGGER operations_guard_update AFTER UPDATE ON operations FOR EACH ROW
    WHEN ((OLD.status, NEW.last_event, NEW.status, NEW.revision - OLD.revision) IS DISTINCT FROM ('running', 'confirm', 'succeeded', 1::bigint)
        OR NEW.arguments_sealed IS NOT NULL
        OR (NEW.tenant_id, NEW.id, NEW.idempotency_key, NEW.action_type, NEW.requested_by, NEW.created_at, NEW.retention, NEW.expired_key,
            NEW.sweep_at, NEW.attempt, NEW.epoch, NEW.args_hash, NEW.request_hash, NEW.incident)
           IS DISTINCT FROM
           (OLD.tenant_id, OLD.id, OLD.idempotency_key, OLD.action_type, OLD.requested_by, OLD.created_at, OLD.retention, OLD.expired_key,
            OLD.sweep_at, OLD.attempt, OLD.epoch, OLD.args_hash, OLD.request_hash, OLD.incident))
    EXECUTE FUNCTION operations_guard();
CREATE TRIGGER operations_guard_delete AFTER DELETE ON operations FOR EACH ROW
    WHEN (OLD.window_ends_at IS NULL OR OLD.window_ends_at > clock_timestamp() OR OLD.watch_until IS NOT NULL)
    EXECUTE FUNCTION operations_guard();

-- Grants ---------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE, DELETE ON leases TO onceward_serve;
GRANT SELECT, INSERT ON audit_events TO onceward_serve;
GRANT SELECT ON attempts TO onceward_serve, onceward_read;
GRANT SELECT ON audit_events, leases TO onceward_read;
GRANT SELECT (sweep_at) ON operations TO onceward_read;

COMMIT;
