-- What changed among the operations that callers wait for.
SELECT /* operation columns */ FROM operations o
JOIN unnest(@tenants::text[], @ids::uuid[], @revisions::bigint[]) AS w (tenant_id, id, revision)
  ON o.tenant_id = w.tenant_id AND o.id = w.id AND o.revision > w.revision
