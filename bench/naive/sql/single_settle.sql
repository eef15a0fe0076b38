WITH moved AS (
    UPDATE operations o SET
        status = 'succeeded', last_event = 'confirm', effect = 'applied', reason = '', in_doubt = false,
        provider_reference = $6::text, result_json = $7::json, resolves = 0, negative_reads = 0,
        lease_expires_at = NULL, next_attempt_at = NULL, window_ends_at = t.now + o.retention,
        arguments_sealed = NULL, claim_id = NULL,
        key_horizon = CASE WHEN o.attempt > 1 THEN o.key_horizon END, revision = o.revision + 1, updated_at = t.now,
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'confirm', 'running', 'succeeded', o.attempt, o.epoch,
            o.args_hash, $8::text, $9::text, nullif($10::text, ''), NULL, NULL, $6::text)
    FROM (SELECT clock_timestamp() AS now) t
    WHERE o.tenant_id = $1::text AND o.idempotency_key = $2::text AND o.id = $3::uuid
      AND o.status = 'running' AND o.attempt = $4::int AND o.epoch = $5::int
      AND (o.provider_reference IS NULL OR o.provider_reference = $6::text)
    RETURNING o.tenant_id, o.id, o.revision, o.attempt, o.epoch, o.args_hash, o.updated_at, o.window_ends_at, o.provider_reference, o.audit_chain
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, outcome, at, reference, chain)
    SELECT tenant_id, id, revision, 'confirm', 'running', 'succeeded', attempt, epoch, args_hash, $8::text, $9::text, nullif($10::text, ''), updated_at, provider_reference, audit_chain FROM moved
)
SELECT revision, updated_at, window_ends_at FROM moved
