-- Operations that are not finished, by state.
SELECT status, count(*) FROM operations WHERE status NOT IN ('succeeded', 'failed') GROUP BY status
