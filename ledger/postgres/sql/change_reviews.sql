asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, expires_at)
    SELECT m.tenant_id, r.id, m.id, m.idempotency_key, r.reason, r.detail, m.args_hash,
        CASE WHEN r.expires_us > 0 THEN clock_timestamp() + r.expires_us * interval '1 microsecond' END
    FROM unnest(@review_ids::uuid[], @review_operations::uuid[], @review_reasons::text[], @review_details::text[], @review_expires_us::bigint[])
      AS r (id, operation_id, reason, detail, expires_us)
    JOIN moved m ON m.id = r.operation_id AND m.status = 'needs_review'
), answered AS (
    UPDATE reviews r SET decision = a.decision, decided_by = a.decided_by, note = a.note, decided_at = clock_timestamp()
    FROM unnest(@answered_tenants::text[], @answered_operations::uuid[], @decisions::text[], @decided_by::text[], @notes::text[])
      AS a (tenant_id, operation_id, decision, decided_by, note)
    JOIN moved m ON m.id = a.operation_id AND m.from_status = 'needs_review'
    WHERE r.tenant_id = a.tenant_id AND r.operation_id = a.operation_id AND r.decision IS NULL
),
