-- Adds a batch, for each tenant once: who adds it again, because the answer was
-- lost, finds it added. In the order of the primary key, so that two who add
-- wait for each other once.
WITH fresh AS (
    INSERT INTO tally_batches (tenant_id, batch_id)
    SELECT DISTINCT tenant_id COLLATE "C", @batch::uuid FROM unnest(@tenants::text[]) AS t (tenant_id) ORDER BY 1
    ON CONFLICT DO NOTHING
    RETURNING tenant_id
)
INSERT INTO tallies AS known (tenant_id, hour, action_type, what, cause, stated, currency, count, amount)
SELECT t.tenant_id, t.hour, t.action_type, t.what, t.cause, t.stated, t.currency, t.count, t.amount::numeric
FROM unnest(@tenants::text[], @hours::timestamptz[], @types::text[], @whats::text[], @causes::text[], @stated::boolean[],
    @currencies::text[], @counts::bigint[], @amounts::text[])
    AS t (tenant_id, hour, action_type, what, cause, stated, currency, count, amount)
JOIN fresh ON fresh.tenant_id = t.tenant_id COLLATE "C"
ORDER BY t.tenant_id COLLATE "C", t.hour, t.action_type COLLATE "C", t.what COLLATE "C", t.cause COLLATE "C", t.stated, t.currency COLLATE "C"
ON CONFLICT (tenant_id, hour, action_type, what, cause, stated, currency)
DO UPDATE SET count = known.count + excluded.count, amount = known.amount + excluded.amount
