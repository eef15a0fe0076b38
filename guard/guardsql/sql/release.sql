-- A late request gives back what it began, and nothing that was begun after it.
DELETE FROM onceward_guard
WHERE tenant = $1 AND operation_id = $2 AND state <> 'finished' AND attempt = $3
