-- Who has held the audit record for longer than serving does, the longest first.
SELECT a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), a.xact_start
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - interval '150 milliseconds'
  AND a.pid IN (
    SELECT l.pid FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.relation IN (to_regclass('public.audit_events'), to_regclass('public.audit_events_default'), to_regclass(@partition::text)))
ORDER BY a.xact_start LIMIT 3
