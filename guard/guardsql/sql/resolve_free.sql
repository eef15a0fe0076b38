-- What a person found out, of an operation that nobody works on: it is free.
DELETE FROM onceward_guard
WHERE tenant = $1 AND operation_id = $2
  AND (state = 'unresolved' OR (state = 'running' AND held_until <= clock_timestamp()))
