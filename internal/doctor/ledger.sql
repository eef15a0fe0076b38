-- What the ledger holds that somebody should know of.
SELECT
    (SELECT provider_key_fingerprint FROM installation WHERE tenant_id = '*') AS fingerprint,
    (SELECT array_agg(tenant_id ORDER BY tenant_id) FROM (SELECT tenant_id FROM tenants WHERE tenant_id <> '*' ORDER BY tenant_id LIMIT 10001) AS listed) AS tenants,
    (SELECT count(*) FROM kill_switches)::int AS kill_switches,
    -- An expired lease is taken up within seconds where anybody reconciles.
    (SELECT extract(epoch FROM clock_timestamp() - min(expires_at))::float8 FROM leases) AS oldest_lease_overdue,
    (SELECT extract(epoch FROM clock_timestamp() - min(opened_at))::float8 FROM reviews WHERE decision IS NULL) AS oldest_review,
    to_regclass('public.audit_events_' || to_char((clock_timestamp() AT TIME ZONE 'UTC') + interval '1 day', 'YYYYMMDD')) IS NOT NULL AS tomorrow
