UPDATE operations o SET
    status = 'succeeded', last_event = 'confirm', effect = 'applied', reason = '', in_doubt = false,
    provider_reference = $3, result_json = $4::json, resolves = 0, negative_reads = 0,
    lease_expires_at = NULL, next_attempt_at = NULL, window_ends_at = t.now + o.retention,
    arguments_sealed = NULL, claim_id = NULL,
    key_horizon = CASE WHEN o.attempt > 1 THEN o.key_horizon END, revision = o.revision + 1, updated_at = t.now,
    audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'confirm', 'running', 'succeeded', o.attempt, o.epoch,
        o.args_hash, $5::text, $6::text, nullif($7::text, ''), NULL, NULL, $3::text)
FROM (SELECT clock_timestamp() AS now) t
WHERE o.tenant_id = $1 AND o.idempotency_key = $2
RETURNING o.updated_at, o.window_ends_at, o.audit_chain
