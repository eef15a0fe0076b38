UPDATE onceward_guard SET state = 'unresolved'
WHERE tenant = $1 AND operation_id = $2 AND state = 'running'
