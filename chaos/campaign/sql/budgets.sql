-- Counters of the budgets, in hundredths: what open operations hold, what is used.
SELECT tenant_id, counter, (held * 100)::bigint, (coalesce((SELECT sum(a) FROM unnest(amounts) AS a), 0) * 100)::bigint
FROM budget_counters
