INSERT INTO {table} (tenant_id, operation_id, request_hash, reference, receipt)
VALUES ($1, $2::text::uuid, $3, $4, $5::text::json)
