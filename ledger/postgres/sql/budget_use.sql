-- What some counters hold now, and when what is wanted fits. What one operation
-- holds while it is open may be left out.
SELECT
    (SELECT (u.held + coalesce(sum(b.amount), 0))::text FROM unnest(c.ends, c.amounts) AS b (ends, amount) WHERE b.ends > t.now),
    hold_free_at(u.held, c.ends, c.amounts, n.amount::numeric, n.most::numeric, t.now)
FROM (SELECT clock_timestamp() AS now) t, unnest(@counters::text[], @amounts::text[], @mosts::text[]) WITH ORDINALITY AS n (counter, amount, most, place)
LEFT JOIN budget_counters c ON c.tenant_id = @tenant AND c.counter = n.counter
CROSS JOIN LATERAL (
    SELECT coalesce(c.held, 0) - coalesce(sum(a.amount), 0) AS held
    FROM holds h, unnest(h.counters, h.kinds, h.amounts) AS a (counter, kind, amount)
    WHERE h.tenant_id = @tenant AND h.operation_id = @without::uuid AND h.state = 'held' AND a.counter = n.counter AND a.kind <> 'rate'
) u
ORDER BY n.place
