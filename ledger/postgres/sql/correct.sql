-- Other arguments under the key of an operation that was proved not applied.
WITH moved AS (
    UPDATE operations o SET
        status = 'pending', last_event = 'correct', reason = '',
        args_hash = @args_hash, arguments_sealed = @sealed, request_hash = NULL,
        adapter_version = @adapter_version, contract_version = @contract_version,
        epoch = o.epoch + 1, key_horizon = NULL, error_json = NULL, provider_reference = NULL,
        next_attempt_at = t.now, window_ends_at = NULL, watch_next_at = NULL,
        amount = nullif(@amount, '')::numeric, currency = nullif(@currency, ''),
        stage = nullif(@stage, ''), policy_version = nullif(@policy_version, ''), rule = nullif(@rule, ''),
        held = o.held OR @held, max_attempts = nullif(@max_attempts::integer, 0),
        give_up_at = CASE WHEN @give_up_us::bigint > 0 THEN t.now + @give_up_us::bigint * interval '1 microsecond' END,
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'correct', 'failed', 'pending', o.attempt, o.epoch + 1,
            @args_hash, @actor, '', NULL, NULL, @context, NULL),
        revision = o.revision + 1, updated_at = t.now
    FROM (SELECT clock_timestamp() AS now) t
    WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid
      AND o.status = 'failed' AND o.effect = 'not_applied' AND o.attempt = @attempt AND o.args_hash = @old_hash
      -- The same correction may be among what a restored ledger has forgotten.
      AND NOT EXISTS (SELECT FROM restores_in_force(o.tenant_id, o.action_type) r WHERE o.updated_at <= r.begun_at)
    RETURNING o.*
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, context, chain)
    SELECT tenant_id, id, revision, updated_at, 'correct', 'failed', status, attempt, epoch, args_hash, @actor, @context::json, audit_chain FROM moved
)
SELECT /* operation columns */ FROM moved o
