SELECT t.oid, t.typarray FROM unnest(@names::text[]) WITH ORDINALITY AS n (name, place)
JOIN pg_type t ON t.oid = to_regtype(n.name) ORDER BY n.place
