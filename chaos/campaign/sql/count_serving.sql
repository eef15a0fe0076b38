-- How many connections the replicas and their pooler have.
SELECT count(*) FROM pg_stat_activity WHERE usename = 'onceward_app' AND application_name <> $1
