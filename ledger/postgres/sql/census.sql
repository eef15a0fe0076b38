-- What is open, of all tenants. It reads the indexes of what is open and what they
-- point to, and no more of it than a limit: what is due first comes first.
WITH t AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), waiting AS (
    SELECT o.status, o.action_type,
        CASE o.status WHEN 'unknown' THEN o.doubted_at ELSE o.created_at END AS since,
        o.next_attempt_at <= t.now - interval '1 minute' AND (o.status = 'pending' OR coalesce(o.lease_expires_at <= t.now, true))
            AND NOT (o.status = 'pending' AND EXISTS (SELECT FROM tenants x WHERE x.tenant_id = o.tenant_id AND NOT x.active)) AS overdue
    FROM t, (
        SELECT * FROM operations WHERE next_attempt_at IS NOT NULL AND status IN ('pending', 'unknown')
        ORDER BY next_attempt_at LIMIT @limit) o
), leased AS (
    -- Most operations of a lease have ended by themselves. Those that hang are at the
    -- one end, those that have just begun at the other.
    (SELECT l.tenant_id, k.idempotency_key FROM (SELECT tenant_id, idempotency_keys FROM leases ORDER BY expires_at LIMIT @limit) l,
        unnest(l.idempotency_keys) AS k (idempotency_key) LIMIT @limit)
    UNION
    (SELECT l.tenant_id, k.idempotency_key FROM (SELECT tenant_id, idempotency_keys FROM leases ORDER BY expires_at DESC LIMIT @limit) l,
        unnest(l.idempotency_keys) AS k (idempotency_key) LIMIT @limit)
), running AS (
    SELECT o.status, o.action_type, o.last_sent_at AS since, o.lease_expires_at <= t.now - interval '1 minute' AS overdue
    FROM t, leased l CROSS JOIN LATERAL (
        -- LIMIT: by its key, each of them, whatever share of all is thought to run.
        SELECT * FROM operations WHERE tenant_id = l.tenant_id AND idempotency_key = l.idempotency_key AND status = 'running' LIMIT 1) o
), asked AS (
    SELECT r.tenant_id, r.idempotency_key, r.opened_at, r.reason,
        coalesce(CASE WHEN r.approved_at IS NULL THEN r.expires_at ELSE r.approved_at END <= t.now - interval '1 minute', false) AS overdue
    FROM t, (SELECT * FROM reviews WHERE decision IS NULL LIMIT @reviews) r
), named AS (
    SELECT 'needs_review' AS status, o.action_type, r.opened_at AS since, r.overdue
    FROM (SELECT * FROM asked LIMIT @limit) r CROSS JOIN LATERAL (
        SELECT action_type FROM operations WHERE tenant_id = r.tenant_id AND idempotency_key = r.idempotency_key LIMIT 1) o
), counted AS (
    SELECT status, action_type, count(*) AS n, count(*) FILTER (WHERE overdue) AS overdue, min(since) AS since
    FROM (SELECT * FROM waiting UNION ALL SELECT * FROM running UNION ALL SELECT * FROM named) o
    GROUP BY status, action_type
    UNION ALL
    -- All of them, whatever they are about.
    SELECT 'needs_review', '', count(*), count(*) FILTER (WHERE overdue), min(opened_at) FROM asked
)
SELECT status, action_type, n, overdue, greatest(coalesce(extract(epoch FROM t.now - since), 0), 0)::float8 FROM counted, t
UNION ALL
SELECT 'switch', CASE WHEN action_type <> '' THEN 'action_type' WHEN provider <> '' THEN 'provider' WHEN tenant_id <> '*' THEN 'tenant' ELSE 'installation' END,
    count(*), 0, 0 FROM kill_switches GROUP BY 2
UNION ALL
SELECT 'reason', reason, count(*), 0, 0 FROM asked GROUP BY reason
UNION ALL
SELECT 'restore', '', count(*), 0, 0 FROM restores WHERE tenant_id = '*' AND ended_at IS NULL
