-- What the ledger's own database holds as a target.
SELECT tenant_id, operation_id::text, subject, created_at FROM demo_notes
