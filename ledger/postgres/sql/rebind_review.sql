UPDATE reviews SET policy_version = @policy_version, detail = @detail, required_approvals = @required, approved_at = NULL
WHERE tenant_id = @tenant AND id = @id AND decision IS NULL
