-- Observed requests in a span, in the order of time.
SELECT tenant_id, id::text, observed_at, actor, action_type, idempotency_key, args_hash, run_json::text, outcome, verdict_json::text,
    coalesce(trim_scale(amount)::text, ''), currency, coalesce(charges_json::text, ''), coalesce(fences_json::text, '')
FROM observations
WHERE tenant_id = @tenant AND observed_at >= @from AND observed_at < @to
ORDER BY observed_at, id
