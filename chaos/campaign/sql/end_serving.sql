-- Ends every connection of the replicas and of their pooler.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'onceward_app' AND application_name <> $1
