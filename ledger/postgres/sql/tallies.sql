-- Sums up a span of whole hours.
SELECT action_type, what, cause, stated, currency, sum(count)::bigint, trim_scale(sum(amount))::text
FROM tallies
WHERE tenant_id = @tenant AND hour >= @from AND hour < @to AND (@action_type::text = '' OR action_type = @action_type::text)
GROUP BY action_type, what, cause, stated, currency
ORDER BY action_type, what, cause, stated, currency
