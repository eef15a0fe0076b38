SELECT current_setting('synchronous_commit'), pg_is_in_recovery()
