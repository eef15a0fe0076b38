SELECT t.oid, t.typarray FROM unnest(@names::text[], @columns::int[]) WITH ORDINALITY AS n (name, columns, place)
JOIN pg_type t ON t.oid = to_regtype(n.name)
JOIN pg_class c ON c.oid = t.typrelid AND c.relnatts = n.columns ORDER BY n.place
