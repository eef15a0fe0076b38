-- Recovery: a ledger that was restored from a backup has forgotten what was sent
-- since. docs/decisions/017 says what it may do, docs/backup-restore.md how.
--
-- The program before this migration runs on this schema, and knows nothing of a
-- recovery: end it before one begins. This one's asks with every claim whether there
-- is one, so that it refuses to start on the schema before.

BEGIN;

-- Each time that the ledger was restored. One that has not ended is in force.
CREATE TABLE restores (
    tenant_id  text COLLATE "C" NOT NULL DEFAULT '*' CHECK (tenant_id = '*'),
    id         uuid        NOT NULL,
    -- What was written in this time may be missing.
    lost_from  timestamptz NOT NULL,
    lost_until timestamptz NOT NULL CHECK (lost_until >= lost_from),
    begun_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    begun_by   text        NOT NULL,
    ended_at   timestamptz,
    ended_by   text,
    PRIMARY KEY (tenant_id, id),
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);

-- For what it has ended already: a tenant, or '*' for all; an action type, or empty
-- for all of the tenant's.
CREATE TABLE restore_clearances (
    tenant_id   text COLLATE "C" NOT NULL,
    restore_id  uuid        NOT NULL,
    action_type text COLLATE "C" NOT NULL DEFAULT '',
    reason      text        NOT NULL CHECK (octet_length(reason) > 0),
    cleared_by  text        NOT NULL,
    cleared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, restore_id, action_type),
    CHECK (tenant_id <> '*' OR action_type <> '')
);

-- Those that are in force for an action of a tenant. It is one SELECT, so that
-- Postgres makes it a part of the statement that asks.
CREATE FUNCTION restores_in_force(tenant text, action text) RETURNS SETOF restores
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.* FROM restores r
    WHERE r.tenant_id = '*' AND r.ended_at IS NULL AND NOT EXISTS (
        SELECT FROM restore_clearances c
        WHERE c.tenant_id IN (tenant, '*') AND c.restore_id = r.id AND c.action_type IN ('', action))
$$;

-- The serving role sees a recovery and cannot end it.
GRANT SELECT ON restores, restore_clearances TO onceward_serve, onceward_read;

-- The state machine ----------------------------------------------------------

-- Three moves more, of a ledger that has forgotten what was sent.
CREATE OR REPLACE FUNCTION operation_move_allowed(from_status text, event text, to_status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (from_status, event, to_status) IN (
        ('', 'record', 'pending'),
        ('', 'claim', 'running'),
        ('', 'escalate', 'needs_review'),
        ('', 'doubt', 'unknown'),
        ('pending', 'claim', 'running'),
        ('pending', 'doubt', 'unknown'),
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
        ('needs_review', 'doubt', 'unknown'),
        ('needs_review', 'approve', 'pending'),
        ('needs_review', 'release', 'pending'),
        ('needs_review', 'reject', 'failed'),
        ('needs_review', 'cancel', 'failed'),
        ('needs_review', 'expire', 'failed'));

-- As before, but for those.
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
        AND NEW.retention = OLD.retention AND NEW.expired_key = OLD.expired_key AND NEW.held = OLD.held
        AND (NEW.result_json, NEW.window_ends_at) IS NOT NULL AND (NEW.arguments_sealed, OLD.incident) IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND NOT operation_sound(NEW) THEN
        broken := format('the columns of a %s operation do not fit together', NEW.status);
    ELSIF TG_OP = 'INSERT' THEN
        IF NOT operation_move_allowed('', NEW.last_event, NEW.status) THEN
            broken := format('a new operation cannot be %s by %s', NEW.status, NEW.last_event);
        ELSIF NEW.status = 'unknown' AND NEW.reason <> 'restored' THEN
            broken := 'a new operation is in doubt in a restored ledger only';
        ELSIF NEW.revision <> 1 OR NEW.epoch <> 0 OR NEW.attempt <> (NEW.status = 'running')::int THEN
            broken := 'a new operation starts at revision 1, epoch 0 and its first attempt';
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        -- One that this transaction has recorded and whose holds do not fit was
        -- never seen by anybody. (Every change counts the revision up.)
        IF OLD.held AND OLD.revision = 1 AND OLD.xmin = pg_current_xact_id()::xid THEN
            RETURN NULL;
        ELSIF OLD.window_ends_at IS NULL OR OLD.window_ends_at > clock_timestamp() OR OLD.watch_until IS NOT NULL THEN
            broken := format('a %s operation inside its window is not deleted', OLD.status);
        END IF;
    ELSIF (NEW.tenant_id, NEW.id, NEW.idempotency_key, NEW.action_type, NEW.requested_by, NEW.created_at)
          IS DISTINCT FROM
          (OLD.tenant_id, OLD.id, OLD.idempotency_key, OLD.action_type, OLD.requested_by, OLD.created_at) THEN
        broken := 'the identity of an operation never changes';
    ELSIF (NEW.retention, NEW.expired_key) IS DISTINCT FROM (OLD.retention, OLD.expired_key) THEN
        broken := 'how long an operation answers for its key is fixed when it is recorded';
    ELSIF OLD.held AND NOT NEW.held THEN
        broken := 'that an operation has holds is not forgotten';
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
    ELSIF NEW.last_event = 'doubt' AND OLD.status <> 'running' AND NEW.reason <> 'restored' THEN
        broken := 'what is not running is in doubt in a restored ledger only';
    ELSIF OLD.status = 'unknown' AND OLD.reason = 'restored' AND NEW.last_event NOT IN ('confirm', 'escalate') THEN
        -- Whoever asks, a program of before included.
        broken := 'a restored doubt ends by a find or a person only';
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

COMMIT;
