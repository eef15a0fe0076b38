SELECT tenant_id, operation_id FROM reviews
WHERE decision IS NULL AND approved_at <= statement_timestamp() - @rest_us::bigint * interval '1 microsecond'
ORDER BY approved_at LIMIT @limit
