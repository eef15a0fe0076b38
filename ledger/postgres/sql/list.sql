SELECT /* operation columns */ FROM operations o
WHERE o.tenant_id = @tenant
  AND (@before::uuid IS NULL OR o.id < @before::uuid)
  AND (coalesce(cardinality(@states::text[]), 0) = 0 OR o.status = ANY (@states::text[]))
  AND (@action_type::text = '' OR o.action_type = @action_type)
  AND (@run_id::text = '' OR o.run_id = @run_id)
  AND (@created_after::timestamptz IS NULL OR o.created_at >= @created_after)
  AND (@created_before::timestamptz IS NULL OR o.created_at < @created_before)
ORDER BY o.id DESC LIMIT @limit
