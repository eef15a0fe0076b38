SELECT request_hash, reference, receipt::text
FROM {table}
WHERE tenant_id = $1 AND operation_id = $2::text::uuid
