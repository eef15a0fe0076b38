-- What the database says of itself. It reads no table of the ledger, which may not
-- be there yet; what a login may not see is NULL.
SELECT
    current_setting('server_version_num')::int AS version_num,
    current_setting('server_version') AS version,
    pg_is_in_recovery() AS standby,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS standby_names,
    (SELECT count(*) FROM pg_stat_replication)::int AS walsenders,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('data_checksums') = 'on' AS checksums,
    current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
    current_setting('server_encoding') AS encoding,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('default_transaction_read_only') = 'on' AS read_only,
    (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout') AS statement_timeout_ms,
    current_setting('max_connections')::int AS max_connections,
    current_setting('superuser_reserved_connections')::int AS reserved_connections,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int AS connections,
    pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
    pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size,
    current_setting('archive_mode') AS archive_mode,
    (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS xid_age,
    (SELECT extract(epoch FROM clock_timestamp() - min(xact_start))::float8 FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND datname = current_database()) AS oldest_transaction,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
    CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = 'onceward_serve') THEN pg_has_role('onceward_serve', 'USAGE') ELSE false END AS serves,
    to_regclass('public.onceward_migrations') IS NOT NULL AS migrated,
    coalesce(has_table_privilege(to_regclass('public.onceward_migrations'), 'SELECT'), false) AS sees_version,
    coalesce(has_table_privilege(to_regclass('public.operations'), 'SELECT'), false) AS sees_ledger,
    coalesce(has_table_privilege(to_regclass('public.restores'), 'SELECT'), false) AS sees_restores,
    coalesce(has_table_privilege(to_regclass('public.audit_events'), 'UPDATE')
        OR has_table_privilege(to_regclass('public.audit_events'), 'DELETE'), false) AS may_change_record
