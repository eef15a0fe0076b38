SELECT /* operation columns */ FROM operations o
WHERE o.status = 'pending' AND o.next_attempt_at <= statement_timestamp()
  AND NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = o.tenant_id AND NOT t.active)
ORDER BY o.next_attempt_at LIMIT @limit
