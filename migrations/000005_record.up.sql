-- The record that can be verified, kill switches, and approvals by several.
-- docs/audit.md says what the chain is and what it cannot show.
--
-- The program before this migration does not run on this schema, nor this one's
-- on the schema before: nothing was released with it.

BEGIN;

-- Operations -----------------------------------------------------------------

ALTER TABLE operations
    -- What it spends: exact, in the currency's major unit.
    ADD COLUMN amount         numeric,
    ADD COLUMN currency       text,
    -- What was decided when it was recorded, and under which rollout stage.
    ADD COLUMN stage          text,
    ADD COLUMN policy_version text,
    ADD COLUMN rule           text,
    -- The chain of its latest event, so that a removed last one shows.
    ADD COLUMN audit_chain    bytea;
ALTER TYPE opening_row
    ADD ATTRIBUTE provider text, ADD ATTRIBUTE amount text, ADD ATTRIBUTE currency text, ADD ATTRIBUTE stage text,
    ADD ATTRIBUTE policy_version text, ADD ATTRIBUTE rule text, ADD ATTRIBUTE context text;
ALTER TYPE held_row ADD ATTRIBUTE context text;

-- Audit record ---------------------------------------------------------------

ALTER TABLE audit_events
    -- What the request was (ledger.EventContext): of first events and refusals.
    ADD COLUMN context   json,
    ADD COLUMN reference text,
    ADD COLUMN chain     bytea;

-- Who looks for refusals does not read what was not refused.
CREATE INDEX audit_events_denied ON audit_events (tenant_id, operation_id, sequence) WHERE event = 'deny';

-- The chain of an event: the SHA-256 of the one before it and of every column, in
-- the form of docs/audit.md. internal/auditchain computes the same. It is one
-- expression, so that Postgres puts it into the statement that calls it.
CREATE FUNCTION audit_event_chain(
    previous bytea, tenant_id text, operation_id uuid, sequence bigint, at timestamptz, event text, from_status text, to_status text,
    attempt integer, epoch integer, args_hash bytea, actor text, detail text, outcome text, idempotency_key text, context text, reference text
) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(convert_to(concat(
        '1:',
        coalesce(octet_length(previous) * 2, 0), ':', encode(previous, 'hex'),
        octet_length(tenant_id), ':', tenant_id,
        '36:', operation_id,
        sequence, ':',
        (extract(epoch FROM at) * 1000000)::bigint, ':',
        octet_length(event), ':', event,
        octet_length(from_status), ':', from_status,
        octet_length(to_status), ':', to_status,
        attempt, ':',
        epoch, ':',
        octet_length(args_hash) * 2, ':', encode(args_hash, 'hex'),
        octet_length(actor), ':', actor,
        octet_length(detail), ':', detail,
        -- Without a length: there is none.
        octet_length(outcome), ':', outcome,
        octet_length(idempotency_key), ':', idempotency_key,
        octet_length(context), ':', context,
        octet_length(reference), ':', reference), 'UTF8'));
GRANT EXECUTE ON FUNCTION audit_event_chain TO onceward_serve, onceward_read;

-- What is recorded already. First events get their context where the operation
-- is still there, and every event its place in the chain.
UPDATE audit_events e SET context = json_build_object(
        'action_type', o.action_type, 'key_hash', encode(sha256(convert_to(o.idempotency_key, 'UTF8')), 'hex'), 'run', o.run_json)
    FROM operations o
    WHERE e.sequence = 1 AND o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key AND o.id = e.operation_id;

CREATE FUNCTION audit_chain_next(previous bytea, e audit_events) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN audit_event_chain(previous, e.tenant_id, e.operation_id, e.sequence, e.at, e.event, e.from_status, e.to_status, e.attempt, e.epoch,
        e.args_hash, e.actor, e.detail, e.outcome, e.idempotency_key, e.context::text, e.reference);
CREATE AGGREGATE audit_chain_of(audit_events) (SFUNC = audit_chain_next, STYPE = bytea);
UPDATE audit_events e SET chain = c.chain
    FROM (
        SELECT tenant_id, operation_id, sequence,
            audit_chain_of(all_of) OVER (PARTITION BY tenant_id, operation_id ORDER BY sequence) AS chain
        FROM audit_events all_of) c
    WHERE e.tenant_id = c.tenant_id AND e.operation_id = c.operation_id AND e.sequence = c.sequence;
DROP AGGREGATE audit_chain_of(audit_events);
DROP FUNCTION audit_chain_next;
ALTER TABLE audit_events ALTER COLUMN chain SET NOT NULL;

-- To keep the head is no change of an operation: its revision stays.
ALTER TABLE operations DISABLE TRIGGER operations_guard;
UPDATE operations o SET audit_chain = e.chain
    FROM (SELECT DISTINCT ON (tenant_id, operation_id) tenant_id, operation_id, chain
        FROM audit_events ORDER BY tenant_id, operation_id, sequence DESC) e
    WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id;
ALTER TABLE operations ENABLE TRIGGER operations_guard;

-- A correction may cost something else.
GRANT UPDATE (amount, currency, stage, policy_version, rule, audit_chain) ON operations TO onceward_serve;
GRANT SELECT (amount, currency, stage, policy_version, rule, audit_chain) ON operations TO onceward_read;

-- Kill switches --------------------------------------------------------------

-- What is stopped: all actions of a tenant, or those of one action type or of
-- one provider. Tenant '*' is for all of them; empty is for none.
CREATE TABLE kill_switches (
    tenant_id   text COLLATE "C" NOT NULL,
    action_type text COLLATE "C" NOT NULL DEFAULT '',
    provider    text COLLATE "C" NOT NULL DEFAULT '',
    reason      text        NOT NULL CHECK (octet_length(reason) > 0),
    set_by      text        NOT NULL,
    set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, action_type, provider),
    CHECK (action_type = '' OR provider = '')
);
-- UPDATE is what a claim needs to hold the switches as they are until it is
-- committed.
GRANT SELECT, INSERT, UPDATE, DELETE ON kill_switches TO onceward_serve;
GRANT SELECT ON kill_switches TO onceward_read;

-- Approvals ------------------------------------------------------------------

ALTER TABLE reviews
    ADD COLUMN required_approvals integer NOT NULL DEFAULT 1 CHECK (required_approvals > 0),
    ADD COLUMN policy_version     text    NOT NULL DEFAULT '',
    -- When as many had approved as must.
    ADD COLUMN approved_at        timestamptz;
CREATE INDEX reviews_approved ON reviews (approved_at) WHERE decision IS NULL AND approved_at IS NOT NULL;
ALTER TYPE review_row ADD ATTRIBUTE required_approvals integer, ADD ATTRIBUTE policy_version text;
ALTER TYPE change_row
    ADD ATTRIBUTE knew_revision bigint, ADD ATTRIBUTE required_approvals integer, ADD ATTRIBUTE policy_version text;

CREATE TABLE approvals (
    tenant_id text COLLATE "C" NOT NULL,
    review_id uuid        NOT NULL,
    approver  text        NOT NULL CHECK (octet_length(approver) BETWEEN 1 AND 255),
    note      text        NOT NULL DEFAULT '',
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, review_id, approver),
    FOREIGN KEY (tenant_id, review_id) REFERENCES reviews ON DELETE CASCADE
);
GRANT SELECT, INSERT, DELETE ON approvals TO onceward_serve;
GRANT SELECT ON approvals TO onceward_read;

COMMIT;
