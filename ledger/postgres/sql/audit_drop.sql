-- While this waits for its lock, who serves waits behind it: not for long.
SET LOCAL lock_timeout = '200ms';
ALTER TABLE public.audit_events DETACH PARTITION /* partition */;
DROP TABLE /* partition */;
