-- What changed among the operations that callers wait for.
SELECT /* operation columns */
FROM unnest(@tenants::text[], @keys::text[], @ids::uuid[], @revisions::bigint[]) AS w (tenant_id, idempotency_key, id, revision)
JOIN operations o ON o.tenant_id = w.tenant_id AND o.idempotency_key = w.idempotency_key AND o.id = w.id AND o.revision > w.revision
