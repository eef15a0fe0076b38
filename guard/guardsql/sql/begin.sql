-- Claims an operation that is not known.
INSERT INTO onceward_guard (tenant, operation_id, action_type, args_sha256, state, held_until, attempt)
VALUES ($1, $2, $3, $4, 'running', clock_timestamp() + make_interval(secs => $5), $6)
ON CONFLICT (tenant, operation_id) DO NOTHING
