-- While this waits for its lock, who serves waits behind it: not for long. It is
-- less than what Postgres takes to see a deadlock, so that this gives way.
SET LOCAL lock_timeout = '200ms';
ALTER TABLE public.audit_events DETACH PARTITION /* partition */;
DROP TABLE /* partition */;
