-- Of the operations that may be past their windows, the first ones: leaves a
-- tombstone for keys that are refused for ever, and puts off what cannot go now:
-- those whose tombstone has not rested (the row goes in a later transaction, so
-- that no claim can slip in between), those settled late or not at all, and those
-- that are watched. What is due then can go, and no row is read twice.
WITH due AS (
    SELECT o.tenant_id, o.idempotency_key, o.id, o.args_hash, o.status, o.provider_reference, o.window_ends_at,
        coalesce(o.window_ends_at <= clock_timestamp() AND o.watch_until IS NULL, false) AS past, o.expired_key = 'reject' AS reject
    FROM operations o
    WHERE o.sweep_at <= statement_timestamp()
    ORDER BY o.sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
), waits AS (
    SELECT d.*, t.created_at AS buried_at
    FROM due d
    LEFT JOIN LATERAL (
        SELECT created_at FROM tombstones t
        WHERE d.reject AND t.tenant_id = d.tenant_id AND t.key_hash = sha256(convert_to(d.idempotency_key, 'UTF8'))) t ON true
    WHERE NOT d.past OR d.reject AND (t.created_at IS NULL OR t.created_at > clock_timestamp() - @rest_us::bigint * interval '1 microsecond')
), put_off AS (
    UPDATE operations o SET
        sweep_at = CASE
            WHEN w.past THEN coalesce(w.buried_at, clock_timestamp()) + @rest_us::bigint * interval '1 microsecond'
            WHEN w.window_ends_at > clock_timestamp() THEN w.window_ends_at
            ELSE clock_timestamp() + interval '1 hour'
        END,
        revision = o.revision + 1
    FROM waits w WHERE o.tenant_id = w.tenant_id AND o.idempotency_key = w.idempotency_key
)
INSERT INTO tombstones (tenant_id, key_hash, args_hash, operation_id, status, provider_reference)
SELECT tenant_id, sha256(convert_to(idempotency_key, 'UTF8')), args_hash, id, status, provider_reference
FROM waits WHERE past AND reject AND buried_at IS NULL
ON CONFLICT DO NOTHING
