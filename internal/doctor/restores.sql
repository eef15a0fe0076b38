-- The restore that began first of those that nobody has ended, and how many there are.
SELECT count(*)::int AS in_force, min(begun_at) AS since FROM restores WHERE tenant_id = '*' AND ended_at IS NULL
