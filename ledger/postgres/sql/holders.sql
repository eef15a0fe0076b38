-- The operations that hold some keys, and what becomes of each key when its
-- operation is past its window: 'reject' or 'reuse'; empty while it answers for
-- its key.
SELECT
    CASE WHEN o.window_ends_at <= t.now AND (o.expired_key = 'reject' OR o.watch_until IS NULL) THEN o.expired_key ELSE '' END,
    /* operation columns */
FROM (SELECT clock_timestamp() AS now) t, unnest(@tenants::text[], @keys::text[]) AS n (tenant_id, idempotency_key)
JOIN operations o ON o.tenant_id = n.tenant_id AND o.idempotency_key = n.idempotency_key
