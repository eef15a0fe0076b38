-- Records new operations with their first moves and audit events, and one lease
-- for those of a tenant. What does not come back has its key taken or buried. The
-- rows come in the order of tenant and key, the only order in which two
-- transactions that want the same keys cannot wait for each other. Reviews and
-- events of those with holds are hold.sql's, which may remove them again. What few
-- openings need stands in the statement for those only: it costs all that are with it.
WITH t AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), n AS MATERIALIZED (
    SELECT given.*, audit_event_chain(NULL, given.tenant_id, given.id, 1, t.now, given.event, '', given.status,
        CASE WHEN given.status = 'running' THEN 1 ELSE 0 END, 0, given.args_hash, given.requested_by, '', NULL,
        given.idempotency_key, given.context, NULL) AS chain
    FROM unnest(@openings::opening_row[]) AS given, t
), switches AS MATERIALIZED (
    -- Read once, and none as a rule.
    SELECT tenant_id, action_type, provider FROM kill_switches
), steady AS (
    -- It reads nothing. It keeps who sets a switch waiting until this is committed.
    SELECT FROM kill_switches WHERE false FOR KEY SHARE
), lost AS MATERIALIZED (
    -- Restores that are in force for somebody; none as a rule.
    SELECT FROM restores WHERE tenant_id = '*' AND ended_at IS NULL
), opened AS (
    INSERT INTO operations (
        tenant_id, id, idempotency_key, key_source, action_type, adapter_version, contract_version,
        args_hash, request_hash, arguments_sealed, status, last_event, effect, attempt, claim_id, provider_key,
        requested_by, run_json, run_id, intent_id, distinct_from, created_at, updated_at,
        first_sent_at, last_sent_at, doubted_at, in_doubt, reason, key_horizon, lease_expires_at, next_attempt_at, retention, expired_key, sweep_at,
        held, max_attempts, give_up_at, amount, currency, stage, policy_version, rule, audit_chain)
    SELECT
        n.tenant_id, n.id, n.idempotency_key, n.key_source, n.action_type, n.adapter_version, n.contract_version,
        n.args_hash, n.request_hash, n.arguments_sealed, n.status, n.event,
        CASE WHEN n.status IN ('running', 'unknown') THEN 'unknown' ELSE 'none' END,
        CASE WHEN n.status = 'running' THEN 1 ELSE 0 END,
        n.claim_id, nullif(n.provider_key, ''),
        n.requested_by, n.run_json::json, nullif(n.run_id, ''), nullif(n.intent_id, ''), n.distinct_from, t.now, t.now,
        CASE n.status WHEN 'running' THEN t.now /* lost from */ END,
        CASE n.status WHEN 'running' THEN t.now /* lost until */ END,
        CASE WHEN n.status = 'unknown' THEN t.now END,
        n.status = 'unknown',
        CASE WHEN n.status = 'unknown' THEN 'restored' ELSE '' END,
        CASE WHEN n.status = 'running' AND n.horizon_us > 0 THEN t.now + n.horizon_us * interval '1 microsecond' END,
        CASE WHEN n.status = 'running' THEN t.now + n.lease_us * interval '1 microsecond' END,
        CASE WHEN n.status IN ('pending', 'unknown') THEN t.now END,
        n.window_us * interval '1 microsecond', n.expired_key,
        date_bin('15 minutes', t.now + n.window_us * interval '1 microsecond', timestamptz '2000-01-01 00:00Z') + interval '15 minutes',
        n.held, nullif(n.max_attempts, 0), CASE WHEN n.give_up_us > 0 THEN t.now + n.give_up_us * interval '1 microsecond' END,
        nullif(n.amount, '')::numeric, nullif(n.currency, ''), nullif(n.stage, ''), nullif(n.policy_version, ''), nullif(n.rule, ''), n.chain
    FROM n, t
    WHERE n.status IN ('pending', 'running' /* and asked */) AND NOT EXISTS (
        SELECT FROM tombstones b WHERE b.tenant_id = n.tenant_id AND b.key_hash = n.key_hash)
      -- In doubt while a restore is in force, and only then.
      AND (n.status = 'unknown') = (EXISTS (SELECT FROM lost) AND EXISTS (SELECT FROM restores_in_force(n.tenant_id, n.action_type)))
      -- A doubt sends nothing, and a key that is not recorded would be sent later.
      AND (n.status = 'unknown' OR NOT EXISTS (
        SELECT FROM switches k
        WHERE k.tenant_id IN (n.tenant_id, '*') AND k.action_type IN ('', n.action_type) AND k.provider IN ('', n.provider)))
      AND NOT EXISTS (SELECT FROM steady)
    ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
    RETURNING tenant_id, id, idempotency_key, status, last_event, attempt, epoch, args_hash, requested_by, revision, lease_expires_at, created_at, held
), leased AS (
    INSERT INTO leases (tenant_id, id, expires_at, idempotency_keys)
    SELECT tenant_id, @lease_id::uuid, min(lease_expires_at), array_agg(idempotency_key)
    FROM opened WHERE status = 'running' GROUP BY tenant_id
), /* asked */ audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, idempotency_key, event, from_status, to_status, attempt, epoch, args_hash, actor, context, chain)
    SELECT n.tenant_id, n.id, 1, t.now, n.idempotency_key, n.event, '', n.status,
        CASE WHEN n.status = 'running' THEN 1 ELSE 0 END, 0, n.args_hash, n.requested_by, n.context::json, n.chain
    FROM n, t
    -- IS TRUE: a look into a table in memory for each, not a join of all with all.
    WHERE NOT n.held AND (n.id IN (SELECT id FROM opened)) IS TRUE
)
SELECT id, created_at FROM opened
