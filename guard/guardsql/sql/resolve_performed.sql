-- What a person found out, of an operation that nobody works on.
UPDATE onceward_guard SET state = 'finished', response = $3
WHERE tenant = $1 AND operation_id = $2
  AND (state = 'unresolved' OR (state = 'running' AND held_until <= clock_timestamp()))
