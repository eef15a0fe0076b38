-- How large the ledger is, what vacuum has to do, and who is connected.
SELECT coalesce(sum(pg_table_size(relid)), 0)::bigint, coalesce(sum(pg_indexes_size(relid)), 0)::bigint,
    coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    (SELECT count(*) FROM operations WHERE status NOT IN ('succeeded', 'failed')),
    (SELECT count(*) FROM operations)
FROM pg_stat_user_tables
