-- The ledger. Every primary key and unique constraint begins with tenant_id, so
-- that the schema distributes by tenant unchanged.

BEGIN;

-- Group roles; people and services get logins that are members of one of them.
-- Roles belong to the cluster, so another database's migration may be making
-- them at this moment.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['onceward_serve', 'onceward_read'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'role % is missing and may not be created by %', wanted, current_user
                        USING HINT = 'Let an administrator run: CREATE ROLE onceward_serve NOLOGIN; CREATE ROLE onceward_read NOLOGIN;';
            END;
        END IF;
    END LOOP;
END
$$;

CREATE TABLE tenants (
    tenant_id  text        NOT NULL PRIMARY KEY
        CHECK (tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    active     boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE api_keys (
    tenant_id   text        NOT NULL REFERENCES tenants,
    key_id      text        NOT NULL,
    secret_hash bytea       NOT NULL CHECK (octet_length(secret_hash) = 32),
    actor       text        NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 255),
    roles       text[]      NOT NULL CHECK (roles <@ ARRAY['agent', 'reviewer', 'auditor', 'admin'] AND cardinality(roles) > 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz,
    revoked_at  timestamptz,
    PRIMARY KEY (tenant_id, key_id)
);

-- One row for the whole installation. A replica with another secret would give
-- the same operation another provider key, and so a second effect.
CREATE TABLE installation (
    tenant_id                text  NOT NULL DEFAULT '*' PRIMARY KEY CHECK (tenant_id = '*'),
    provider_key_fingerprint bytea NOT NULL CHECK (octet_length(provider_key_fingerprint) = 32)
);

CREATE TABLE operations (
    tenant_id          text        NOT NULL,
    id                 uuid        NOT NULL,
    idempotency_key    text        NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    key_source         text        NOT NULL CHECK (key_source IN ('caller', 'recipe', 'run_step')),
    action_type        text        NOT NULL,
    adapter_version    text        NOT NULL,
    contract_version   text        NOT NULL,
    args_hash          bytea       NOT NULL CHECK (octet_length(args_hash) = 32),
    request_hash       bytea       CHECK (octet_length(request_hash) = 32),
    arguments_sealed   bytea,

    status             text        NOT NULL,
    last_event         text        NOT NULL,
    effect             text        NOT NULL,
    reason             text        NOT NULL DEFAULT '',
    in_doubt           boolean     NOT NULL DEFAULT false,

    attempt            integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    epoch              integer     NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    lease              integer     NOT NULL DEFAULT 0,
    resolves           integer     NOT NULL DEFAULT 0,
    negative_reads     integer     NOT NULL DEFAULT 0,

    provider_reference text,
    result_json        json,
    error_json         json,
    incident           text,

    requested_by       text        NOT NULL,
    run_json           json        NOT NULL,
    run_id             text,
    intent_id          text,
    distinct_from      uuid,

    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_sent_at      timestamptz,
    last_sent_at       timestamptz,
    doubted_at         timestamptz,
    key_horizon        timestamptz,
    lease_expires_at   timestamptz,
    next_attempt_at    timestamptz,
    retention          interval    NOT NULL CHECK (retention > interval '0'),
    expired_key        text        NOT NULL CHECK (expired_key IN ('reject', 'reuse')),
    window_ends_at     timestamptz,
    watch_until        timestamptz,
    watch_next_at      timestamptz,

    revision           bigint      NOT NULL DEFAULT 1,

    PRIMARY KEY (tenant_id, id),
    CONSTRAINT operations_key UNIQUE (tenant_id, idempotency_key),

    CONSTRAINT operations_status CHECK (status IN ('pending', 'running', 'succeeded', 'unknown', 'failed', 'needs_review')),
    CONSTRAINT operations_effect CHECK (
        CASE status
            WHEN 'pending'   THEN effect IN ('none', 'not_applied')
            WHEN 'running'   THEN effect = 'unknown'
            WHEN 'succeeded' THEN effect = 'applied'
            WHEN 'unknown'   THEN effect IN ('unknown', 'applied')
            WHEN 'failed'    THEN effect IN ('none', 'not_applied')
            ELSE effect IN ('none', 'not_applied', 'unknown', 'applied')
        END),
    CONSTRAINT operations_receipt CHECK ((status = 'succeeded') = (result_json IS NOT NULL)),
    CONSTRAINT operations_failure CHECK (status <> 'failed' OR error_json IS NOT NULL),
    CONSTRAINT operations_running CHECK (status <> 'running' OR (attempt > 0 AND lease_expires_at IS NOT NULL AND request_hash IS NOT NULL)),
    CONSTRAINT operations_doubt CHECK (
        CASE
            WHEN status = 'unknown' THEN in_doubt
            WHEN status IN ('pending', 'succeeded', 'failed') THEN NOT in_doubt
            ELSE true
        END),
    -- L8: only a finished operation has an end.
    CONSTRAINT operations_window CHECK ((status IN ('succeeded', 'failed')) = (window_ends_at IS NOT NULL)),
    CONSTRAINT operations_arguments CHECK (
        CASE
            WHEN status IN ('succeeded', 'failed') THEN arguments_sealed IS NULL OR watch_until IS NOT NULL
            WHEN status = 'needs_review' THEN true
            ELSE arguments_sealed IS NOT NULL
        END)
) WITH (fillfactor = 60);

-- The reconciler's questions, each answered by a small index.
CREATE INDEX operations_lease_due  ON operations (lease_expires_at) WHERE status = 'running';
CREATE INDEX operations_next_due   ON operations (next_attempt_at) WHERE status IN ('pending', 'unknown') AND next_attempt_at IS NOT NULL;
CREATE INDEX operations_watch_due  ON operations (watch_next_at) WHERE watch_next_at IS NOT NULL;
CREATE INDEX operations_window_end ON operations (window_ends_at) WHERE window_ends_at IS NOT NULL;

CREATE TABLE attempts (
    tenant_id    text        NOT NULL,
    operation_id uuid        NOT NULL,
    number       integer     NOT NULL CHECK (number > 0),
    claim_id     uuid        NOT NULL,
    event        text        NOT NULL CHECK (event IN ('claim', 'replay')),
    provider_key text        NOT NULL,
    epoch        integer     NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    outcome      text,
    evidence     text,
    PRIMARY KEY (tenant_id, operation_id, number),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

CREATE TABLE reviews (
    tenant_id    text        NOT NULL,
    id           uuid        NOT NULL,
    operation_id uuid        NOT NULL,
    reason       text        NOT NULL CHECK (reason IN ('approval_required', 'inconclusive', 'contradicted', 'budget_exhausted')),
    detail       text        NOT NULL,
    args_hash    bytea       NOT NULL,
    opened_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    decision     text,
    decided_by   text,
    note         text,
    decided_at   timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL))
);
CREATE UNIQUE INDEX reviews_open ON reviews (tenant_id, operation_id) WHERE decision IS NULL;
CREATE INDEX reviews_of_operation ON reviews (tenant_id, operation_id, id);
CREATE INDEX reviews_expiring ON reviews (expires_at) WHERE decision IS NULL AND expires_at IS NOT NULL;

-- The audit record: written in the transaction of the move, never edited. The
-- sequence is the operation's revision after the event.
CREATE TABLE audit_events (
    tenant_id    text        NOT NULL,
    operation_id uuid        NOT NULL,
    sequence     bigint      NOT NULL,
    event        text        NOT NULL,
    from_status  text        NOT NULL,
    to_status    text        NOT NULL,
    attempt      integer     NOT NULL,
    epoch        integer     NOT NULL,
    args_hash    bytea       NOT NULL,
    actor        text        NOT NULL,
    detail       text        NOT NULL DEFAULT '',
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, operation_id, sequence)
);

-- What remains of a key that is refused for ever after its window.
CREATE TABLE tombstones (
    tenant_id          text        NOT NULL,
    key_hash           bytea       NOT NULL CHECK (octet_length(key_hash) = 32),
    args_hash          bytea       NOT NULL,
    operation_id       uuid        NOT NULL,
    status             text        NOT NULL,
    provider_reference text,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, key_hash)
);

-- Every legal move, as ledger.Moves has it; a test compares the two.
CREATE FUNCTION operation_move_allowed(from_status text, event text, to_status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (from_status, event, to_status) IN (
        ('', 'record', 'pending'),
        ('', 'claim', 'running'),
        ('', 'escalate', 'needs_review'),
        ('pending', 'claim', 'running'),
        ('pending', 'escalate', 'needs_review'),
        ('pending', 'reject', 'failed'),
        ('pending', 'cancel', 'failed'),
        ('pending', 'expire', 'failed'),
        ('running', 'confirm', 'succeeded'),
        ('running', 'refuse', 'failed'),
        ('running', 'defer', 'pending'),
        ('running', 'doubt', 'unknown'),
        ('unknown', 'confirm', 'succeeded'),
        ('unknown', 'refuse', 'failed'),
        ('unknown', 'defer', 'pending'),
        ('unknown', 'replay', 'running'),
        ('unknown', 'escalate', 'needs_review'),
        ('failed', 'correct', 'pending'),
        ('failed', 'contradict', 'needs_review'),
        ('needs_review', 'confirm', 'succeeded'),
        ('needs_review', 'refuse', 'failed'),
        ('needs_review', 'approve', 'pending'),
        ('needs_review', 'release', 'pending'),
        ('needs_review', 'reject', 'failed'),
        ('needs_review', 'cancel', 'failed'),
        ('needs_review', 'expire', 'failed'));

-- The last line of defence: whoever writes, an illegal move does not happen.
CREATE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    IF TG_OP = 'INSERT' THEN
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
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER operations_guard BEFORE INSERT OR UPDATE OR DELETE ON operations
    FOR EACH ROW EXECUTE FUNCTION operations_guard();

-- Serving reads and writes the ledger, but only ever adds to the audit record.
GRANT SELECT, INSERT, UPDATE, DELETE ON operations, attempts, reviews TO onceward_serve;
-- A tombstone that goes would free a key that is refused for ever.
GRANT SELECT, INSERT ON tombstones TO onceward_serve;
GRANT SELECT, INSERT ON audit_events TO onceward_serve;
GRANT SELECT, INSERT ON installation TO onceward_serve;
GRANT SELECT ON tenants, api_keys TO onceward_serve;
-- Reading sees what people may see; arguments and credentials are not for it.
GRANT SELECT ON reviews, audit_events, tombstones, tenants TO onceward_read;
-- Not the provider keys: who knows one can ask the provider for its answer.
GRANT SELECT (tenant_id, operation_id, number, event, epoch, started_at, ended_at, outcome, evidence) ON attempts TO onceward_read;
GRANT SELECT (tenant_id, id, idempotency_key, key_source, action_type, adapter_version, contract_version,
    args_hash, status, last_event, effect, reason, in_doubt, attempt, epoch, resolves, negative_reads,
    provider_reference, result_json, error_json, incident, requested_by, run_json, run_id, intent_id,
    distinct_from, created_at, updated_at, first_sent_at, last_sent_at, doubted_at, key_horizon, lease_expires_at,
    next_attempt_at, retention, expired_key, window_ends_at, watch_until, revision)
    ON operations TO onceward_read;

COMMIT;
