UPDATE restores SET ended_at = clock_timestamp(), ended_by = @by WHERE tenant_id = '*' AND ended_at IS NULL
