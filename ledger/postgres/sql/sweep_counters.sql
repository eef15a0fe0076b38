-- Of the counters whose turn it is, removes those that count nothing any more: a
-- day after they are empty, some days after their last bucket is past, and those
-- without an end when nothing was charged for longer than any window. One of which
-- an open operation holds something stays (L8). The rest is put off. It says of how
-- many it was the turn.
WITH due AS (
    SELECT c.tenant_id, c.counter, c.held,
        CASE
            WHEN cardinality(c.ends) = 0 THEN c.charged_at + interval '1 day'
            WHEN 'infinity' = ANY (c.ends) THEN c.charged_at + interval '400 days'
            ELSE (SELECT max(e) FROM unnest(c.ends) AS e) + interval '3 days'
        END AS over_at
    FROM budget_counters c
    WHERE c.sweep_at <= statement_timestamp()
    ORDER BY c.sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
), weighed AS (
    SELECT d.*, d.held = 0 AND d.over_at <= clock_timestamp() AS over FROM due d
), put_off AS (
    UPDATE budget_counters c SET sweep_at = date_bin('15 minutes', greatest(w.over_at, clock_timestamp() + interval '1 day'), timestamptz '2000-01-01 00:00Z')
    FROM weighed w WHERE NOT w.over AND c.tenant_id = w.tenant_id AND c.counter = w.counter
), removed AS (
    DELETE FROM budget_counters c USING weighed w WHERE w.over AND c.tenant_id = w.tenant_id AND c.counter = w.counter
)
SELECT FROM weighed
