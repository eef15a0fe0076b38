-- As the view of that name, with the operation named twice so that one partition
-- is read.
SELECT c.attempt, c.at, e.at, coalesce(e.outcome, ''), coalesce(e.detail, '')
FROM audit_events c
LEFT JOIN LATERAL (
    SELECT at, outcome, detail FROM audit_events e
    WHERE e.tenant_id = @tenant AND e.operation_id = @id::uuid AND e.attempt = c.attempt AND e.outcome IS NOT NULL
    ORDER BY e.sequence LIMIT 1) e ON true
WHERE c.tenant_id = @tenant AND c.operation_id = @id::uuid AND c.event IN ('claim', 'replay')
ORDER BY c.attempt
