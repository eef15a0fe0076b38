-- Which operations of Onceward this service has performed.
CREATE TABLE IF NOT EXISTS onceward_guard (
    tenant       text        NOT NULL,
    operation_id text        NOT NULL,
    action_type  text        NOT NULL,
    args_sha256  text        NOT NULL,
    attempt      integer     NOT NULL, -- that began it
    state        text        NOT NULL CHECK (state IN ('running', 'finished', 'unresolved')),
    -- Until when a request that is running may be under way.
    held_until   timestamptz NOT NULL,
    response     jsonb,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, operation_id),
    CHECK ((state = 'finished') = (response IS NOT NULL))
);
