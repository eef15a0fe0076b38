SELECT id::text, reason, detail, opened_at, expires_at, coalesce(decision, ''), coalesce(decided_by, ''), coalesce(note, ''), decided_at
FROM reviews WHERE tenant_id = @tenant AND operation_id = @id::uuid ORDER BY id DESC LIMIT 1
