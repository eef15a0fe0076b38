asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, expires_at, required_approvals, policy_version)
    SELECT tenant_id, review_id, id, idempotency_key, review_reason, review_detail, args_hash,
        CASE WHEN review_expires_us > 0 THEN clock_timestamp() + review_expires_us * interval '1 microsecond' END,
        required_approvals, policy_version
    FROM moved WHERE status = 'needs_review'
), answered AS (
    UPDATE reviews r SET decision = m.decision, decided_by = m.decided_by, note = m.note, decided_at = clock_timestamp()
    FROM moved m
    WHERE m.from_status = 'needs_review' AND m.decision IS NOT NULL
      AND r.tenant_id = m.tenant_id AND r.operation_id = m.id AND r.decision IS NULL
),
