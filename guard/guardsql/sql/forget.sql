-- Finished operations that nobody will ask for any more. Others stay.
DELETE FROM onceward_guard
WHERE state = 'finished' AND created_at < clock_timestamp() - make_interval(secs => $1)
