UPDATE reviews r SET approved_at = clock_timestamp()
WHERE r.tenant_id = @tenant AND r.id = @id AND r.approved_at IS NULL
  AND r.required_approvals <= (SELECT count(*) FROM approvals a WHERE a.tenant_id = r.tenant_id AND a.review_id = r.id)
