-- The operations of a day, oldest first, with how many there are and how many of
-- them are unresolved.
SELECT tenant_id, id, status, count(*) OVER (), count(*) FILTER (WHERE window_ends_at IS NULL) OVER ()
FROM operations
WHERE id >= first_uuid_of(@day::date) AND id < first_uuid_of(@day::date + 1)
ORDER BY id LIMIT @limit
