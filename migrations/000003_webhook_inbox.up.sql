-- What providers said by themselves, until it is weighed, and for a while after
-- that: an event that is sent again is known by it.
--
-- The program before this migration does not know the table. This one's runs on
-- the schema before: without the table nothing is taken in.

BEGIN;

CREATE TABLE webhook_inbox (
    tenant_id    text COLLATE "C" NOT NULL,
    provider     text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    -- Which operation it is about: one of them at least.
    operation_id uuid,
    reference    text,
    outcome      text        NOT NULL CHECK (outcome IN ('applied', 'applied_no_receipt', 'rejected', 'accepted')),
    receipt_json json,
    failure_json json,
    detail       text        NOT NULL DEFAULT '',
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The next look at it, which is the end of a reconciler's lease as well; the
    -- number of looks tells two lessees apart.
    next_look_at timestamptz DEFAULT clock_timestamp(),
    looks        integer     NOT NULL DEFAULT 0,
    processed_at timestamptz,
    note         text,
    PRIMARY KEY (tenant_id, provider, event_id),
    CHECK (operation_id IS NOT NULL OR reference IS NOT NULL),
    CHECK ((processed_at IS NULL) = (next_look_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

CREATE INDEX webhook_inbox_due ON webhook_inbox (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX webhook_inbox_processed ON webhook_inbox (processed_at) WHERE processed_at IS NOT NULL;

-- What an event says cannot be changed; what is known of it goes when it was
-- weighed, since the operation and its audit record have it then.
GRANT SELECT, INSERT, DELETE ON webhook_inbox TO onceward_serve;
GRANT UPDATE (receipt_json, failure_json, next_look_at, looks, processed_at, note) ON webhook_inbox TO onceward_serve;
GRANT SELECT ON webhook_inbox TO onceward_read;

COMMIT;
