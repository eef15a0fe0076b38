-- Starts another attempt: pending by claim, unknown by replay (under a
-- reconciler's lease, inside the key horizon).
WITH steady AS (
    -- It reads nothing. It keeps who sets a switch waiting until this is committed.
    SELECT FROM kill_switches WHERE false FOR KEY SHARE
), started AS (
    UPDATE operations o SET
        status = 'running', last_event = @event, effect = 'unknown', reason = '', error_json = NULL,
        attempt = o.attempt + 1, claim_id = @claim_id::uuid, provider_key = @provider_key,
        request_hash = coalesce(o.request_hash, @request_hash),
        first_sent_at = coalesce(o.first_sent_at, t.now),
        last_sent_at = t.now,
        key_horizon = coalesce(o.key_horizon,
            CASE WHEN @horizon_us::bigint > 0 THEN t.now + @horizon_us::bigint * interval '1 microsecond' END),
        lease_expires_at = t.now + @lease_us::bigint * interval '1 microsecond',
        next_attempt_at = NULL,
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, @event, @from, 'running', o.attempt + 1, o.epoch,
            o.args_hash, @actor, '', NULL, NULL, NULL, NULL),
        revision = o.revision + 1, updated_at = t.now
    FROM (SELECT clock_timestamp() AS now) t
    WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid
      AND o.status = @from AND o.attempt = @attempt AND o.epoch = @epoch
      AND (o.request_hash IS NULL OR o.request_hash = @request_hash)
      -- The policy's time for it: no attempt begins after it.
      AND coalesce(o.give_up_at > t.now, true)
      AND NOT EXISTS (SELECT FROM steady)
      AND NOT EXISTS (
        SELECT FROM kill_switches k
        WHERE k.tenant_id IN (o.tenant_id, '*') AND k.action_type IN ('', o.action_type) AND k.provider IN ('', @provider))
      AND CASE @event::text
            -- Nothing new is sent for a tenant that was switched off.
            WHEN 'claim'  THEN o.next_attempt_at <= t.now
              AND NOT EXISTS (SELECT FROM tenants WHERE tenant_id = o.tenant_id AND NOT active)
            -- The call may arrive as late as the attempt's lease ends.
            WHEN 'replay' THEN o.lease = @lease AND o.lease_expires_at > t.now
              AND o.key_horizon > t.now + @lease_us::bigint * interval '1 microsecond'
          END
    RETURNING o.*
), leased AS (
    INSERT INTO leases (tenant_id, id, expires_at, idempotency_keys)
    SELECT tenant_id, @claim_id::uuid, lease_expires_at, ARRAY[idempotency_key] FROM started
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, chain)
    SELECT tenant_id, id, revision, updated_at, last_event, @from, status, attempt, epoch, args_hash, @actor, audit_chain FROM started
)
SELECT /* operation columns */ FROM started o
