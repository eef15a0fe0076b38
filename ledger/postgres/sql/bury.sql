-- Leaves a tombstone for keys that are refused for ever. The row itself goes in
-- a later transaction (sweep.sql), so that no claim can slip in between.
INSERT INTO tombstones (tenant_id, key_hash, args_hash, operation_id, status, provider_reference)
SELECT o.tenant_id, sha256(convert_to(o.idempotency_key, 'UTF8')), o.args_hash, o.id, o.status, o.provider_reference
FROM operations o
WHERE o.sweep_at <= (SELECT clock_timestamp())
  AND o.window_ends_at <= (SELECT clock_timestamp()) AND o.watch_until IS NULL AND o.expired_key = 'reject'
  AND NOT EXISTS (
    SELECT FROM tombstones t WHERE t.tenant_id = o.tenant_id AND t.key_hash = sha256(convert_to(o.idempotency_key, 'UTF8')))
  -- One at a time: two that lay the same ones in another order would wait for each
  -- other.
  AND (SELECT pg_try_advisory_xact_lock(hashtext('onceward bury')))
ORDER BY o.sweep_at LIMIT @limit
ON CONFLICT DO NOTHING
