-- Records a new operation with its first move, attempt, review and audit event.
-- No row comes back when the key is taken or has a tombstone.
WITH opened AS (
    INSERT INTO operations (
        tenant_id, id, idempotency_key, key_source, action_type, adapter_version, contract_version,
        args_hash, request_hash, arguments_sealed, status, last_event, effect, attempt,
        requested_by, run_json, run_id, intent_id, distinct_from,
        first_sent_at, last_sent_at, key_horizon, lease_expires_at, next_attempt_at, retention, expired_key)
    SELECT
        @tenant, @id::uuid, @key, @key_source, @action_type, @adapter_version, @contract_version,
        @args_hash, @request_hash, @sealed, @status, @event,
        CASE WHEN @status::text = 'running' THEN 'unknown' ELSE 'none' END,
        (@status::text = 'running')::int,
        @actor, @run::json, nullif(@run_id, ''), nullif(@intent_id, ''), nullif(@distinct_from, '')::uuid,
        CASE WHEN @status::text = 'running' THEN t.now END,
        CASE WHEN @status::text = 'running' THEN t.now END,
        CASE WHEN @status::text = 'running' AND @horizon_us::bigint > 0 THEN t.now + @horizon_us::bigint * interval '1 microsecond' END,
        CASE WHEN @status::text = 'running' THEN t.now + @lease_us::bigint * interval '1 microsecond' END,
        CASE WHEN @status::text = 'pending' THEN t.now END,
        @window_us::bigint * interval '1 microsecond', @expired_key
    FROM (SELECT clock_timestamp() AS now) t
    WHERE NOT EXISTS (
        SELECT FROM tombstones WHERE tenant_id = @tenant AND key_hash = sha256(convert_to(@key, 'UTF8')))
    ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
    RETURNING *
), started AS (
    INSERT INTO attempts (tenant_id, operation_id, number, claim_id, event, provider_key, epoch)
    SELECT tenant_id, id, attempt, @claim_id::uuid, 'claim', @provider_key, epoch
    FROM opened WHERE status = 'running'
), asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, reason, detail, args_hash, expires_at)
    SELECT tenant_id, @review_id::uuid, id, @review_reason, @review_detail, args_hash,
        CASE WHEN @review_expires_us::bigint > 0 THEN clock_timestamp() + @review_expires_us::bigint * interval '1 microsecond' END
    FROM opened WHERE status = 'needs_review'
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor)
    SELECT tenant_id, id, revision, last_event, '', status, attempt, epoch, args_hash, @actor FROM opened
)
SELECT /* operation columns */ FROM opened o
