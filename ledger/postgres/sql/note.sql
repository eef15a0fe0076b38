-- An event that is about no operation: a refused request, a kill switch. Its id
-- is its own, so that one that is there already is the same.
INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, context, chain)
SELECT @tenant::text, @id::uuid, 1, t.now, @event::text, '', '', 0, 0, @args_hash::bytea, @actor::text, @detail::text, @context::text::json,
    audit_event_chain(NULL, @tenant::text, @id::uuid, 1, t.now, @event::text, '', '', 0, 0, @args_hash::bytea, @actor::text, @detail::text,
        NULL, NULL, @context::text, NULL)
FROM (SELECT clock_timestamp() AS now) t
ON CONFLICT DO NOTHING
