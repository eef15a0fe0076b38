-- The tenants with an operation of an action type that has a secret on record:
-- in its row, its audit events or its reviews, as text or as bytes.
SELECT o.tenant_id FROM operations o
WHERE o.action_type = $1 AND (
    position($2 IN o::text) > 0 OR position($3 IN o::text) > 0
    OR EXISTS (SELECT FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id
        AND (position($2 IN e::text) > 0 OR position($3 IN e::text) > 0))
    OR EXISTS (SELECT FROM reviews r WHERE r.tenant_id = o.tenant_id AND r.operation_id = o.id
        AND position($2 IN r::text) > 0))
