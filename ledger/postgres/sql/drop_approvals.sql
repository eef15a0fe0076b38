DELETE FROM approvals WHERE tenant_id = @tenant AND review_id = @id
