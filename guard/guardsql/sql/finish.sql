-- A response that is there already stays.
UPDATE onceward_guard SET state = 'finished', response = $3
WHERE tenant = $1 AND operation_id = $2 AND state <> 'finished'
