-- Something learned that moves nothing.
WITH noted AS (
    UPDATE operations o SET
        incident = coalesce(nullif(@incident, ''), o.incident),
        provider_reference = coalesce(o.provider_reference, nullif(@reference, '')),
        in_doubt = o.in_doubt OR (@in_doubt AND o.status IN ('running', 'unknown', 'needs_review')),
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, 'evidence', o.status, o.status, @attempt, o.epoch,
            o.args_hash, @actor, @detail, NULL, NULL, NULL, nullif(@reference, '')),
        revision = o.revision + 1, updated_at = t.now
    FROM (SELECT clock_timestamp() AS now) t
    WHERE o.tenant_id = @tenant AND o.idempotency_key = @key AND o.id = @id::uuid AND o.status = @from AND o.attempt = @current
    RETURNING o.*
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, reference, chain)
    SELECT tenant_id, id, revision, updated_at, 'evidence', status, status, @attempt, epoch, args_hash, @actor, @detail, nullif(@reference, ''),
        audit_chain FROM noted
)
SELECT /* operation columns */ FROM noted o
