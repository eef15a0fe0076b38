-- Takes in what a provider said to a tenant, once each: its id is known as long
-- as its row is there. It says whether there is such a tenant, and how many
-- events are new.
WITH tenant AS (
    SELECT tenant_id FROM tenants WHERE tenant_id = @tenant
), stored AS (
    INSERT INTO webhook_inbox (tenant_id, provider, event_id, operation_id, reference, outcome, receipt_json, failure_json, detail)
    SELECT t.tenant_id, @provider, e.id, e.operation_id, e.reference, e.outcome, e.receipt::json, e.failure::json, e.detail
    FROM tenant t, unnest(@ids::text[], @operations::uuid[], @references::text[], @outcomes::text[], @receipts::text[], @failures::text[], @details::text[])
        AS e (id, operation_id, reference, outcome, receipt, failure, detail)
    ON CONFLICT DO NOTHING
    RETURNING event_id
), known AS (
    -- One that is there already may be on this server only: nobody was told that
    -- it is stored. To lock it is a write, whose commit waits for the standbys
    -- and so for all that was written before.
    SELECT FROM webhook_inbox WHERE tenant_id = @tenant AND provider = @provider AND event_id = ANY (@ids::text[])
    FOR KEY SHARE
)
SELECT EXISTS (SELECT FROM tenant), (SELECT count(*) FROM stored) FROM (SELECT count(*) FROM known) AS locked
