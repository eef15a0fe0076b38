SELECT /* operation columns */ FROM reviews r
JOIN operations o ON o.tenant_id = r.tenant_id AND o.idempotency_key = r.idempotency_key AND o.id = r.operation_id
WHERE r.decision IS NULL AND r.expires_at <= statement_timestamp() AND r.approved_at IS NULL AND o.status = 'needs_review'
ORDER BY r.expires_at LIMIT @limit
