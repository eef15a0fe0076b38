-- Whether this is a ledger that can be written to, as this program knows it.
SELECT pg_is_in_recovery(), (
    SELECT count(*) FROM unnest(@names::text[], @columns::int[]) AS n (name, columns)
    JOIN pg_type t ON t.oid = to_regtype(n.name)
    JOIN pg_class c ON c.oid = t.typrelid AND c.relnatts = n.columns), EXISTS (SELECT FROM restores WHERE tenant_id = '*' AND ended_at IS NULL)
