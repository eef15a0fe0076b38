-- Forgets intents whose quiet time is over.
WITH due AS (
    SELECT tenant_id, intent FROM intents
    WHERE quiet_until <= statement_timestamp() ORDER BY quiet_until LIMIT @limit FOR UPDATE SKIP LOCKED
)
DELETE FROM intents i USING due WHERE i.tenant_id = due.tenant_id AND i.intent = due.intent
