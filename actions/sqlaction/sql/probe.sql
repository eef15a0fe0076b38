SELECT pg_is_in_recovery(), pg_try_advisory_xact_lock($1)
