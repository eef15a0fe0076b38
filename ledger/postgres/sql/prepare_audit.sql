-- The days to come, in UTC.
SELECT audit_events_prepare((clock_timestamp() AT TIME ZONE 'UTC')::date - 1, (clock_timestamp() AT TIME ZONE 'UTC')::date + @days::int)
