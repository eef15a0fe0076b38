o.tenant_id, o.id::text, o.idempotency_key, o.key_source, o.action_type, o.adapter_version, o.contract_version,
o.args_hash, o.request_hash, o.status, o.last_event, o.effect, o.reason, o.in_doubt,
o.attempt, o.epoch, o.lease, o.resolves, o.negative_reads,
coalesce(o.provider_reference, ''), o.result_json::text, o.error_json::text, coalesce(o.incident, ''),
o.requested_by, o.run_json::text, coalesce(o.intent_id, ''), coalesce(o.distinct_from::text, ''),
o.created_at, o.updated_at, o.first_sent_at, o.last_sent_at, o.doubted_at, o.key_horizon, o.lease_expires_at,
o.next_attempt_at, o.window_ends_at - o.retention, o.window_ends_at, o.watch_until, o.revision, o.held, o.max_attempts, o.give_up_at,
coalesce(o.amount::text, ''), coalesce(o.currency, ''), coalesce(o.stage, 'reconcile'), coalesce(o.policy_version, ''), coalesce(o.rule, '')
