-- Every operation as the judge sees it.
SELECT tenant_id, id::text, idempotency_key, coalesce(run_id, ''), action_type, status, effect, coalesce(provider_reference, ''),
    coalesce(result_json::text, ''), coalesce(error_json->>'code', ''), attempt, incident IS NOT NULL, coalesce(intent_id, '')
FROM operations
