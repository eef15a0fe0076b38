-- What some counters hold now, and when what is wanted fits. What one operation
-- holds may be left out: it is a bucket that takes off.
SELECT
    (SELECT coalesce(sum(b.amount), 0)::text FROM unnest(u.ends, u.amounts) AS b (ends, amount) WHERE b.ends > t.now),
    hold_free_at(u.ends, u.amounts, n.amount::numeric, n.most::numeric, t.now)
FROM (SELECT clock_timestamp() AS now) t, unnest(@counters::text[], @amounts::text[], @mosts::text[]) WITH ORDINALITY AS n (counter, amount, most, place)
LEFT JOIN budget_counters c ON c.tenant_id = @tenant AND c.counter = n.counter
CROSS JOIN LATERAL (
    SELECT c.ends || coalesce(array_agg(a.ends), '{}') AS ends, c.amounts || coalesce(array_agg(-a.amount), '{}') AS amounts
    FROM holds h, unnest(h.counters, h.kinds, h.amounts, h.ends) AS a (counter, kind, amount, ends)
    WHERE h.tenant_id = @tenant AND h.operation_id = @without::uuid AND a.counter = n.counter
      AND (h.state = 'held' OR h.state = 'spent' AND a.kind = 'use' OR a.kind = 'rate')
) u
ORDER BY n.place
