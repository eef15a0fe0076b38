-- Forgets tallies of hours long ago.
WITH due AS (
    SELECT tenant_id, hour, action_type, what, cause, stated, currency FROM tallies
    WHERE hour <= statement_timestamp() - @keep_us::bigint * interval '1 microsecond'
    ORDER BY hour LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM tallies t USING due
WHERE (t.tenant_id, t.hour, t.action_type, t.what, t.cause, t.stated, t.currency)
    = (due.tenant_id, due.hour, due.action_type, due.what, due.cause, due.stated, due.currency)
