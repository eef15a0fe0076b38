-- Held until the transaction ends. Two operations that share a number by chance
-- wait for one another, and that is all.
SELECT pg_try_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 7193))
