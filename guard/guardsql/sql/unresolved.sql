-- What a request began and did not end, the oldest first.
SELECT tenant, operation_id, action_type, args_sha256, created_at
FROM onceward_guard
WHERE state = 'unresolved' OR (state = 'running' AND held_until <= clock_timestamp())
ORDER BY created_at, tenant, operation_id
LIMIT $1
