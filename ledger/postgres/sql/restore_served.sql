-- Services log in as somebody else than the owner of the tables.
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'onceward' AND usename <> current_user
