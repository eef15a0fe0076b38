-- Whether a partition of the audit record is there, whether it is the one that
-- audit_events_prepare makes for the day, and how many days ago the day was.
SELECT p.id IS NOT NULL,
    EXISTS (
        SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhrelid = p.id AND i.inhparent = 'public.audit_events'::regclass
          AND (@day::date IS NULL OR pg_get_expr(c.relpartbound, c.oid) =
            format('FOR VALUES FROM (%L) TO (%L)', first_uuid_of(@day::date), first_uuid_of(@day::date + 1)))),
    (clock_timestamp() AT TIME ZONE 'UTC')::date - @day::date
FROM (SELECT to_regclass(@partition::text) AS id) p
