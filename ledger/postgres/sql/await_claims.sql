-- Claims hold the table in ROW SHARE until they are committed, and readers do not:
-- a dump keeps nobody from stopping what must be stopped.
SET LOCAL lock_timeout = '100ms';
LOCK TABLE kill_switches IN EXCLUSIVE MODE;
