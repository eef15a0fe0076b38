INSERT INTO approvals (tenant_id, review_id, approver, note) VALUES (@tenant, @id, @approver, @note) ON CONFLICT DO NOTHING
