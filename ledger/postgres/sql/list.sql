-- In the order of the audit record, which is by id, newest first; each operation
-- is then reached by its key.
SELECT /* operation columns */
FROM audit_events e
CROSS JOIN LATERAL (
    SELECT * FROM operations o
    WHERE o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key AND o.id = e.operation_id
    OFFSET 0) o
WHERE e.tenant_id = @tenant AND e.sequence = 1
  AND (@before::uuid IS NULL OR e.operation_id < @before::uuid)
  AND (coalesce(cardinality(@states::text[]), 0) = 0 OR o.status = ANY (@states::text[]))
  AND (@action_type::text = '' OR o.action_type = @action_type)
  AND (@run_id::text = '' OR o.run_id = @run_id)
  AND (@created_after::timestamptz IS NULL OR o.created_at >= @created_after)
  AND (@created_before::timestamptz IS NULL OR o.created_at < @created_before)
ORDER BY e.operation_id DESC LIMIT @limit
