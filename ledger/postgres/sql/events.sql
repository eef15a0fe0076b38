-- The audit record of a tenant in the order of its key. Bounds of ids that are
-- always there let Postgres leave out the partitions of other days.
SELECT e.operation_id::text, e.sequence, e.at, e.event, e.from_status, e.to_status, e.attempt, e.epoch, e.args_hash, e.actor, e.detail,
    coalesce(e.outcome, ''), coalesce(e.reference, ''), e.context::text, e.chain
FROM audit_events e
WHERE e.tenant_id = @tenant AND e.operation_id >= @from::uuid AND e.operation_id <= @to::uuid
  AND (e.operation_id, e.sequence) > (@after::uuid, @sequence::bigint)
  AND (@actor::text = '' OR e.actor = @actor)
  /* denied */
  -- What kind of action it was is in the first event.
  AND (@action_type::text = '' OR EXISTS (
    SELECT FROM audit_events f
    WHERE f.tenant_id = @tenant AND f.operation_id = e.operation_id AND f.sequence = 1 AND f.context->>'action_type' = @action_type))
ORDER BY e.operation_id, e.sequence LIMIT @limit
