CREATE TABLE IF NOT EXISTS {table} (
    tenant_id    text        NOT NULL,
    operation_id uuid        NOT NULL,
    request_hash bytea       NOT NULL,
    reference    text        NOT NULL,
    receipt      json        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, operation_id)
);
