-- Every event as a line of JSON, as audit_lines.sql has it, and with the first one
-- of each operation the head of its chain as the operation has it.
SELECT row_to_json(line)::text FROM (
    SELECT e.tenant_id, e.operation_id, e.sequence, to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
        e.event, e.from_status, e.to_status, e.attempt, e.epoch, encode(e.args_hash, 'hex') AS args_hash, e.actor, e.detail, e.outcome,
        e.idempotency_key, e.context::text AS context, e.reference, encode(e.chain, 'hex') AS chain,
        CASE WHEN e.sequence = 1 THEN coalesce((
            SELECT encode(o.audit_chain, 'hex') FROM operations o
            WHERE o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key AND o.id = e.operation_id), '') END AS head
    FROM audit_events e
    WHERE e.tenant_id >= @tenant::text AND (e.tenant_id = @tenant::text OR @tenant::text = '') AND e.operation_id >= @from::uuid
    ORDER BY e.tenant_id, e.operation_id, e.sequence) line
