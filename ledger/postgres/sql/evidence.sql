-- Something learned that moves nothing.
WITH noted AS (
    UPDATE operations o SET
        incident = coalesce(nullif(@incident, ''), o.incident),
        provider_reference = coalesce(o.provider_reference, nullif(@reference, '')),
        in_doubt = o.in_doubt OR (@in_doubt AND o.status IN ('running', 'unknown', 'needs_review')),
        revision = o.revision + 1, updated_at = clock_timestamp()
    WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid AND o.status = @from AND o.attempt = @current
    RETURNING o.*
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail)
    SELECT tenant_id, id, revision, 'evidence', status, status, @attempt, epoch, args_hash, @actor, @detail FROM noted
)
SELECT /* operation columns */ FROM noted o
