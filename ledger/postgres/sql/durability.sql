SELECT current_setting('synchronous_commit'), pg_is_in_recovery(), to_regclass('restores') IS NOT NULL
