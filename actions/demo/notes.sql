CREATE TABLE IF NOT EXISTS demo_notes (
    tenant_id    text        NOT NULL,
    operation_id uuid        NOT NULL,
    subject      text        NOT NULL,
    body         text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, operation_id)
);
GRANT SELECT, INSERT ON demo_notes TO onceward_serve;
