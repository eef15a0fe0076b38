WITH steady AS (
    -- Who sets a switch waits until this is committed.
    SELECT FROM kill_switches WHERE false FOR KEY SHARE
)
INSERT INTO operations (
    tenant_id, id, idempotency_key, key_source, action_type, adapter_version, contract_version,
    args_hash, request_hash, arguments_sealed, status, last_event, effect, attempt, claim_id, provider_key,
    requested_by, run_json, run_id, intent_id, created_at, updated_at,
    first_sent_at, last_sent_at, key_horizon, lease_expires_at, retention, expired_key, sweep_at, stage, policy_version, rule, audit_chain)
SELECT
    $1::text, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::text,
    $8::bytea, $9::bytea, $10::bytea, 'running', 'claim', 'unknown', 1, $11::uuid, $12::text,
    $13::text, $14::json, nullif($15::text, ''), nullif($16::text, ''), t.now, t.now,
    t.now, t.now,
    CASE WHEN $17::bigint > 0 THEN t.now + $17::bigint * interval '1 microsecond' END,
    t.now + $18::bigint * interval '1 microsecond',
    $19::bigint * interval '1 microsecond', $20::text,
    date_bin('15 minutes', t.now + $19::bigint * interval '1 microsecond', timestamptz '2000-01-01 00:00Z') + interval '15 minutes',
    nullif($23::text, ''), nullif($24::text, ''), nullif($25::text, ''),
    audit_event_chain(NULL, $1::text, $2::uuid, 1, t.now, 'claim', '', 'running', 1, 0, $8::bytea, $13::text, '', NULL, $3::text, $22::text, NULL)
FROM (SELECT clock_timestamp() AS now) t
WHERE NOT EXISTS (
    SELECT FROM tombstones b WHERE b.tenant_id = $1::text AND b.key_hash = sha256(convert_to($3::text, 'UTF8')))
  AND NOT EXISTS (
    SELECT FROM kill_switches k
    WHERE k.tenant_id IN ($1::text, '*') AND k.action_type IN ('', $5::text) AND k.provider IN ('', $21::text))
  AND NOT EXISTS (SELECT FROM steady)
  AND NOT EXISTS (SELECT FROM restores_in_force($1::text, $5::text))
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
RETURNING created_at, lease_expires_at, key_horizon, audit_chain
