-- What is known of an operation. Who runs too long is not believed to.
SELECT CASE WHEN state = 'running' AND held_until <= clock_timestamp() THEN 'unresolved' ELSE state END,
       args_sha256, response
FROM onceward_guard
WHERE tenant = $1 AND operation_id = $2
