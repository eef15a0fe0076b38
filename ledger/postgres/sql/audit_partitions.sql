-- The partitions of the audit record, oldest first: rows by the last vacuum or
-- analyze (negative: there was none), the bytes of rows, all bytes, and how many
-- operations are of the day. That is read off their ids, in one pass.
WITH needed AS (
    SELECT date '1970-01-01' + (('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 86400000)::int AS day, count(*) AS operations
    FROM operations GROUP BY 1
), partitions AS (
    SELECT c.oid, c.reltuples::bigint AS tuples,
        CASE WHEN c.relname ~ '^audit_events_[0-9]{8}$' THEN to_date(right(c.relname, 8), 'YYYYMMDD') END AS day
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'public.audit_events'::regclass AND c.relname ~ '^audit_events_([0-9]{8}|default)$'
)
SELECT coalesce(to_char(p.day, 'YYYY-MM-DD'), 'default'),
    p.tuples, coalesce(pg_relation_size(p.oid), 0), coalesce(pg_total_relation_size(p.oid), 0),
    CASE WHEN p.day IS NOT NULL THEN coalesce(n.operations, 0) ELSE (
        SELECT coalesce(sum(d.operations), 0)::bigint FROM needed d
        WHERE NOT EXISTS (SELECT FROM partitions q WHERE q.day = d.day)) END,
    coalesce(p.day < (clock_timestamp() AT TIME ZONE 'UTC')::date, true)
FROM partitions p LEFT JOIN needed n ON n.day = p.day
ORDER BY p.day NULLS LAST
