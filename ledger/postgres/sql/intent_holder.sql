-- The first of some intents that is closed to an operation, and who holds it.
SELECT n.intent, i.operation_id::text, i.idempotency_key, i.quiet_until
FROM (SELECT clock_timestamp() AS now) t, unnest(@intents::text[]) WITH ORDINALITY AS n (intent, place)
JOIN intents i ON i.tenant_id = @tenant AND i.intent = n.intent
WHERE i.quiet_until IS NULL OR i.quiet_until > t.now AND i.operation_id IS DISTINCT FROM @distinct_from::uuid
ORDER BY n.place LIMIT 1
