DELETE FROM onceward_guard
WHERE tenant = $1 AND operation_id = $2 AND state <> 'finished'
