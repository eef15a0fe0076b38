-- What some counters hold now, and when what is wanted fits.
SELECT
    (SELECT (coalesce(c.held, 0) + coalesce(sum(b.amount), 0))::text FROM unnest(c.ends, c.amounts) AS b (ends, amount) WHERE b.ends > t.now),
    hold_free_at(c.held, c.ends, c.amounts, n.amount::numeric, n.most::numeric, t.now)
FROM (SELECT clock_timestamp() AS now) t, unnest(@counters::text[], @amounts::text[], @mosts::text[]) WITH ORDINALITY AS n (counter, amount, most, place)
LEFT JOIN budget_counters c ON c.tenant_id = @tenant AND c.counter = n.counter
ORDER BY n.place
