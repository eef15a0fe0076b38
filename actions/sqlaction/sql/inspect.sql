-- One row about the database and the table named $1. The ledger is known by its
-- tables, in whatever schema.
SELECT EXISTS (
           SELECT
           FROM pg_class o
           JOIN pg_attribute k ON k.attrelid = o.oid AND k.attname = 'idempotency_key' AND NOT k.attisdropped
           JOIN pg_class e ON e.relnamespace = o.relnamespace AND e.relname = 'audit_events'
           WHERE o.relname = 'operations'
       ) AS ledger,
       t.oid IS NOT NULL AS there,
       coalesce(t.relkind IN ('r', 'p') AND t.relpersistence = 'p', false) AS durable,
       coalesce(row_security_active(t.oid), false) AS hides,
       coalesce(has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT'), false) AS usable,
       EXISTS (
           SELECT
           FROM pg_index i
           WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
             AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2
             AND (SELECT array_agg(a.attname::text ORDER BY a.attname)
                  FROM pg_attribute a
                  WHERE a.attrelid = t.oid AND a.attnum = ANY (i.indkey)) = ARRAY['operation_id', 'tenant_id']
       ) AS unambiguous
FROM (SELECT to_regclass($1) AS oid) named
LEFT JOIN pg_class t ON t.oid = named.oid
