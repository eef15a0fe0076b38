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
    outcome         text,
    idempotency_key text COLLATE "C",
    PRIMARY KEY (tenant_id, operation_id, sequence)
) PARTITION BY RANGE (operation_id);

-- For ids of a day that has no partition: a clock that is wrong must not stop
-- claims.
CREATE TABLE audit_events_default PARTITION OF audit_events DEFAULT;

-- Makes the partitions of some days, those there are excepted, and returns how
-- many it made. It runs as the owner, so that the serving role can ask for the
-- days to come without being able to change anything.
CREATE FUNCTION audit_events_prepare(first_day date, last_day date) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    day  date;
    name text;
    made integer := 0;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'no more than 400 days at once';
    END IF;
    FOR day IN SELECT first_day + n FROM pg_catalog.generate_series(0, last_day - first_day) AS n LOOP
        name := 'audit_events_' || pg_catalog.to_char(day::timestamp, 'YYYYMMDD');
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

-- Batches --------------------------------------------------------------------

-- What the statements of shared transactions take: an array of rows.
CREATE TYPE opening_row AS (
    tenant_id text, id uuid, idempotency_key text, key_hash bytea, key_source text, action_type text,
    adapter_version text, contract_version text, args_hash bytea, request_hash bytea, arguments_sealed bytea,
    status text, event text, claim_id uuid, provider_key text, requested_by text, run_json text, run_id text,
    intent_id text, distinct_from uuid, lease_us bigint, horizon_us bigint, window_us bigint, expired_key text
);
CREATE TYPE review_row AS (
    operation_id uuid, id uuid, reason text, detail text, expires_us bigint
);
CREATE TYPE change_row AS (
    tenant_id text, idempotency_key text, id uuid, from_status text, attempt integer, epoch integer, lease integer,
    knew_doubt boolean, knew_reference text, event text, to_status text, effect text, reason text, in_doubt boolean,
    reference text, receipt text, failure text, bump integer, reset_resolves boolean, delay_us bigint, watch_us bigint,
    actor text, detail text, outcome text, review_id uuid, review_reason text, review_detail text,
    review_expires_us bigint, decided_review uuid, decision text, decided_by text, note text
);

-- The guard ------------------------------------------------------------------

-- CHECK constraints, and conditions of triggers, are read from the catalog anew
-- by each statement: those of operations took 80 µs of it, more than the insert.
-- Their rules are the guard's now. It looks after the change, which is rolled
-- back when a rule is broken: a trigger before an update would lock, and log,
-- each row once more. The two changes that nearly all are come first: a new
-- operation that is claimed, and the receipt of a running one.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT conname FROM pg_constraint WHERE conrelid = 'operations'::regclass AND contype = 'c' LOOP
        EXECUTE format('ALTER TABLE operations DROP CONSTRAINT %I', name);
    END LOOP;
END
$$;

-- Whether the columns of an operation fit together.
CREATE FUNCTION operation_sound(o operations) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce(
        octet_length(o.idempotency_key) BETWEEN 1 AND 255
        AND o.key_source IN ('caller', 'recipe', 'run_step') AND o.expired_key IN ('reject', 'reuse')
        AND octet_length(o.args_hash) = 32 AND octet_length(coalesce(o.request_hash, o.args_hash)) = 32
        AND o.attempt >= 0 AND o.epoch >= 0 AND o.retention > interval '0'
        AND (o.status = 'succeeded') = (o.result_json IS NOT NULL)
        -- L8: only a finished operation has an end.
        AND (o.status IN ('succeeded', 'failed')) = (o.window_ends_at IS NOT NULL)
        AND CASE o.status
            WHEN 'pending' THEN o.effect IN ('none', 'not_applied') AND NOT o.in_doubt AND o.arguments_sealed IS NOT NULL
            WHEN 'running' THEN o.effect = 'unknown' AND o.arguments_sealed IS NOT NULL AND o.attempt > 0
                AND o.lease_expires_at IS NOT NULL AND o.request_hash IS NOT NULL AND o.claim_id IS NOT NULL AND o.provider_key IS NOT NULL
            WHEN 'succeeded' THEN o.effect = 'applied' AND NOT o.in_doubt AND (o.arguments_sealed IS NULL OR o.watch_until IS NOT NULL)
            WHEN 'unknown' THEN o.effect IN ('unknown', 'applied') AND o.in_doubt AND o.arguments_sealed IS NOT NULL
            WHEN 'failed' THEN o.effect IN ('none', 'not_applied') AND NOT o.in_doubt AND o.error_json IS NOT NULL
                AND (o.arguments_sealed IS NULL OR o.watch_until IS NOT NULL)
            WHEN 'needs_review' THEN o.effect IN ('none', 'not_applied', 'unknown', 'applied')
            ELSE false
        END, false);
END
$$;

CREATE OR REPLACE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    IF TG_OP = 'INSERT' AND NEW.last_event = 'claim' AND NEW.status = 'running' AND NEW.effect = 'unknown' AND NOT NEW.in_doubt
        AND NEW.revision = 1 AND NEW.attempt = 1 AND NEW.epoch = 0
        AND octet_length(NEW.idempotency_key) BETWEEN 1 AND 255 AND octet_length(NEW.args_hash) = 32 AND octet_length(NEW.request_hash) = 32
        AND NEW.key_source IN ('caller', 'recipe', 'run_step') AND NEW.expired_key IN ('reject', 'reuse') AND NEW.retention > interval '0'
        AND (NEW.arguments_sealed, NEW.lease_expires_at, NEW.claim_id, NEW.provider_key) IS NOT NULL
        AND (NEW.result_json, NEW.window_ends_at) IS NULL THEN
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' AND OLD.status = 'running' AND NEW.last_event = 'confirm' AND NEW.status = 'succeeded' AND NEW.effect = 'applied'
        AND NOT NEW.in_doubt AND NEW.revision = OLD.revision + 1 AND NEW.attempt = OLD.attempt AND NEW.epoch = OLD.epoch
        AND NEW.args_hash = OLD.args_hash AND NEW.request_hash = OLD.request_hash
        AND NEW.tenant_id = OLD.tenant_id AND NEW.id = OLD.id AND NEW.idempotency_key = OLD.idempotency_key
        AND NEW.action_type = OLD.action_type AND NEW.requested_by = OLD.requested_by AND NEW.created_at = OLD.created_at
        AND NEW.retention = OLD.retention AND NEW.expired_key = OLD.expired_key
        AND (NEW.result_json, NEW.window_ends_at) IS NOT NULL AND (NEW.arguments_sealed, OLD.incident) IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND NOT operation_sound(NEW) THEN
        broken := format('the columns of a %s operation do not fit together', NEW.status);
    ELSIF TG_OP = 'INSERT' THEN
        IF NOT operation_move_allowed('', NEW.last_event, NEW.status) THEN
            broken := format('a new operation cannot be %s by %s', NEW.status, NEW.last_event);
        ELSIF NEW.revision <> 1 OR NEW.epoch <> 0 OR NEW.attempt <> (NEW.status = 'running')::int THEN
            broken := 'a new operation starts at revision 1, epoch 0 and its first attempt';
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        IF OLD.window_ends_at IS NULL OR OLD.window_ends_at > clock_timestamp() OR OLD.watch_until IS NOT NULL THEN
            broken := format('a %s operation inside its window is not deleted', OLD.status);
        END IF;
    ELSIF (NEW.tenant_id, NEW.id, NEW.idempotency_key, NEW.action_type, NEW.requested_by, NEW.created_at)
          IS DISTINCT FROM
          (OLD.tenant_id, OLD.id, OLD.idempotency_key, OLD.action_type, OLD.requested_by, OLD.created_at) THEN
        broken := 'the identity of an operation never changes';
    ELSIF (NEW.retention, NEW.expired_key) IS DISTINCT FROM (OLD.retention, OLD.expired_key) THEN
        broken := 'how long an operation answers for its key is fixed when it is recorded';
    ELSIF OLD.incident IS NOT NULL AND NEW.incident IS NULL THEN
        broken := 'an incident is not forgotten';
    ELSIF NEW.arguments_sealed IS DISTINCT FROM OLD.arguments_sealed AND NEW.arguments_sealed IS NOT NULL AND NEW.last_event <> 'correct' THEN
        broken := 'stored arguments are dropped, never rewritten, but by a correction';
    ELSIF NEW.revision <> OLD.revision + 1 THEN
        broken := 'every change counts the revision up by one';
    ELSIF NEW.status = OLD.status THEN
        IF (NEW.last_event, NEW.attempt, NEW.epoch, NEW.args_hash, NEW.request_hash, NEW.effect, NEW.window_ends_at)
           IS DISTINCT FROM
           (OLD.last_event, OLD.attempt, OLD.epoch, OLD.args_hash, OLD.request_hash, OLD.effect, OLD.window_ends_at)
           OR NEW.result_json::text IS DISTINCT FROM OLD.result_json::text
           OR NEW.error_json::text IS DISTINCT FROM OLD.error_json::text
           OR (OLD.in_doubt AND NOT NEW.in_doubt)
           OR (OLD.provider_reference IS NOT NULL AND NEW.provider_reference IS DISTINCT FROM OLD.provider_reference) THEN
            broken := format('a change without a move cannot rewrite a %s operation', OLD.status);
        END IF;
    ELSIF NOT operation_move_allowed(OLD.status, NEW.last_event, NEW.status) THEN
        broken := format('%s does not go to %s by %s', OLD.status, NEW.status, NEW.last_event);
    ELSIF NEW.attempt <> OLD.attempt + (NEW.last_event IN ('claim', 'replay'))::int THEN
        broken := 'the attempt number counts provider calls';
    ELSIF NEW.epoch <> OLD.epoch AND NOT (NEW.epoch = OLD.epoch + 1 AND NEW.last_event IN ('defer', 'release', 'correct')) THEN
        broken := 'the key epoch grows by one, on proof of not-applied only';
    ELSIF NEW.args_hash <> OLD.args_hash AND NOT (NEW.last_event = 'correct' AND OLD.effect = 'not_applied') THEN
        broken := 'only a correction of an operation that was not applied changes arguments';
    ELSIF NEW.request_hash IS DISTINCT FROM OLD.request_hash AND OLD.request_hash IS NOT NULL
          AND NOT (NEW.last_event = 'correct' OR NEW.epoch > OLD.epoch) THEN
        broken := 'what is sent is frozen at the first attempt';
    ELSIF OLD.status = 'running' AND OLD.in_doubt AND NEW.status IN ('pending', 'failed') THEN
        broken := 'an attempt cannot clear the doubt that an earlier one left';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'illegal move: %', broken USING ERRCODE = 'OW001';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER operations_guard AFTER INSERT OR UPDATE OR DELETE ON operations
    FOR EACH ROW EXECUTE FUNCTION operations_guard();

-- Grants ---------------------------------------------------------------------

-- What never changes about an operation the serving role cannot change.
REVOKE UPDATE ON operations FROM onceward_serve;
GRANT UPDATE (adapter_version, contract_version, args_hash, request_hash, arguments_sealed, status, last_event, effect, reason, in_doubt,
    attempt, epoch, lease, resolves, negative_reads, provider_reference, result_json, error_json, incident, claim_id, provider_key,
    updated_at, first_sent_at, last_sent_at, doubted_at, key_horizon, lease_expires_at, next_attempt_at, window_ends_at,
    watch_until, watch_next_at, sweep_at, revision) ON operations TO onceward_serve;
GRANT SELECT, INSERT, UPDATE, DELETE ON leases TO onceward_serve;
GRANT SELECT, INSERT ON audit_events TO onceward_serve;
GRANT SELECT ON attempts TO onceward_serve, onceward_read;
GRANT SELECT ON audit_events, leases TO onceward_read;
GRANT SELECT (sweep_at) ON operations TO onceward_read;

COMMIT;
