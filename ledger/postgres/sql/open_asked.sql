-- What openings ask a person.
asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, expires_at, required_approvals, policy_version)
    SELECT o.tenant_id, r.id, o.id, o.idempotency_key, r.reason, r.detail, o.args_hash,
        CASE WHEN r.expires_us > 0 THEN clock_timestamp() + r.expires_us * interval '1 microsecond' END,
        r.required_approvals, r.policy_version
    FROM unnest(@reviews::review_row[]) AS r
    JOIN opened o ON o.id = r.operation_id AND o.status = 'needs_review' AND NOT o.held
),
