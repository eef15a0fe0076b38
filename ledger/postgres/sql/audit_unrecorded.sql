-- Operations without a record: all of it was removed.
SELECT o.tenant_id, o.id::text, o.status FROM operations o
WHERE (o.tenant_id = @tenant::text OR @tenant::text = '') AND o.id >= @from::uuid
  AND NOT EXISTS (SELECT FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id)
ORDER BY o.tenant_id, o.id LIMIT @limit
