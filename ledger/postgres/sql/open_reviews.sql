SELECT operation_id::text, id::text FROM reviews
WHERE tenant_id = @tenant AND decision IS NULL AND id > @after::uuid
ORDER BY id LIMIT @limit
