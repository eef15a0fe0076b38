-- Of the counters whose turn it is, removes those that count nothing any more: a
-- day after they are empty, some days after their last bucket is past, and those
-- without an end when nothing was charged for longer than any window, unless
-- something is still open that was charged before (L8). The rest is put off.
WITH due AS (
    SELECT c.tenant_id, c.counter, c.charged_at, 'infinity' = ANY (c.ends) AS endless,
        CASE
            WHEN cardinality(c.ends) = 0 THEN c.charged_at + interval '1 day'
            WHEN 'infinity' = ANY (c.ends) THEN c.charged_at + interval '400 days'
            ELSE (SELECT max(e) FROM unnest(c.ends) AS e) + interval '3 days'
        END AS over_at
    FROM budget_counters c
    WHERE c.sweep_at <= (SELECT clock_timestamp())
    ORDER BY c.sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
), weighed AS (
    -- Ids are in the order of time: only very old operations are looked at.
    SELECT d.*, d.over_at <= clock_timestamp() AND NOT (d.endless AND EXISTS (
        SELECT FROM holds h
        WHERE h.tenant_id = d.tenant_id AND h.operation_id < first_uuid_of(((d.charged_at AT TIME ZONE 'UTC')::date + 2))
          AND h.state = 'held' AND d.counter = ANY (h.counters))) AS over
    FROM due d
), put_off AS (
    UPDATE budget_counters c SET sweep_at = date_bin('15 minutes', greatest(w.over_at, clock_timestamp() + interval '1 day'), timestamptz '2000-01-01 00:00Z')
    FROM weighed w WHERE NOT w.over AND c.tenant_id = w.tenant_id AND c.counter = w.counter
)
DELETE FROM budget_counters c USING weighed w WHERE w.over AND c.tenant_id = w.tenant_id AND c.counter = w.counter
