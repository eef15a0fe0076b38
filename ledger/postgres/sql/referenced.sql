-- The operations that are named by a provider's references and that an event
-- could still mean something for: in doubt, before a person, or watched after
-- they were called failed. An index on the reference would take each settlement
-- off its page; these few are found by the indexes that hold them already, once
-- for all references that are asked for.
SELECT /* operation columns */
FROM (SELECT DISTINCT * FROM unnest(@tenants::text[], @references::text[]) AS n (tenant_id, reference)) w
JOIN (
    SELECT * FROM operations WHERE next_attempt_at IS NOT NULL AND status = 'unknown'
    UNION ALL
    SELECT * FROM operations WHERE watch_next_at IS NOT NULL AND status IN ('succeeded', 'failed')
    UNION ALL
    SELECT reviewed.* FROM reviews r
    CROSS JOIN LATERAL (
        SELECT * FROM operations
        WHERE tenant_id = r.tenant_id AND idempotency_key = r.idempotency_key AND id = r.operation_id AND status = 'needs_review'
        OFFSET 0) reviewed
    WHERE r.decision IS NULL AND r.tenant_id = ANY (@tenants::text[])
) o ON o.tenant_id = w.tenant_id AND o.provider_reference = w.reference
