-- The one guarded move of operations that exist. What does not come back is no
-- longer as the caller knew it. The rows come in the order of tenant and key, so
-- that two transactions never wait for each other.
WITH t AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), moved AS (
    UPDATE operations o SET
        status = n.to_status, last_event = n.event, effect = n.effect, reason = n.reason, in_doubt = n.in_doubt,
        -- What is released starts anew; the audit record has the old reference.
        provider_reference = CASE WHEN n.event = 'release' THEN NULL ELSE coalesce(nullif(n.reference, ''), o.provider_reference) END,
        result_json = n.receipt::json,
        error_json = n.failure::json,
        epoch = o.epoch + n.bump,
        request_hash = CASE WHEN n.bump = 1 THEN NULL ELSE o.request_hash END,
        -- Nothing asks for the claim of an attempt that has ended, nor for the horizon of
        -- the only attempt once there is a receipt. Every byte less lets more settlements
        -- find room on the page of their claim. (What ends otherwise keeps them: it is rare.)
        key_horizon = CASE WHEN n.bump = 1 OR (n.to_status = 'succeeded' AND o.attempt = 1) THEN NULL ELSE o.key_horizon END,
        claim_id = NULL,
        resolves = CASE WHEN n.to_status = 'unknown' AND NOT n.reset_resolves THEN o.resolves ELSE 0 END,
        negative_reads = 0,
        doubted_at = CASE WHEN n.event = 'doubt' THEN t.now ELSE o.doubted_at END,
        lease_expires_at = NULL,
        next_attempt_at = CASE WHEN n.to_status IN ('pending', 'unknown') THEN t.now + n.delay_us * interval '1 microsecond' END,
        window_ends_at = CASE WHEN n.to_status IN ('succeeded', 'failed') THEN t.now + o.retention END,
        watch_until = CASE WHEN n.watch_us > 0 THEN t.now + n.watch_us * interval '1 microsecond' ELSE o.watch_until END,
        watch_next_at = CASE WHEN n.to_status IN ('succeeded', 'failed') AND (n.watch_us > 0 OR o.watch_until IS NOT NULL) THEN t.now END,
        arguments_sealed = CASE WHEN n.to_status IN ('succeeded', 'failed') AND n.watch_us = 0 AND o.watch_until IS NULL
            THEN NULL ELSE o.arguments_sealed END,
        audit_chain = audit_event_chain(o.audit_chain, o.tenant_id, o.id, o.revision + 1, t.now, n.event, n.from_status, n.to_status, o.attempt,
            o.epoch + n.bump, o.args_hash, n.actor, n.detail, nullif(n.outcome, ''), NULL, NULL, nullif(n.reference, '')),
        revision = o.revision + 1, updated_at = t.now
    FROM unnest(@changes::change_row[]) AS n, t
    WHERE o.tenant_id = n.tenant_id AND o.idempotency_key = n.idempotency_key AND o.id = n.id
      AND o.status = n.from_status AND o.attempt = n.attempt AND o.epoch = n.epoch
      -- Negative: the caller holds no lease.
      AND (n.lease < 0 OR o.lease = n.lease)
      /* reviews guard */
      -- A second receipt with another reference never overwrites the first.
      AND (n.from_status = 'needs_review' OR n.reference = '' OR o.provider_reference IS NULL OR o.provider_reference = n.reference)
      -- Doubt that came up meanwhile (a late receipt) outweighs a proof of
      -- absence that did not know of it.
      AND (n.to_status NOT IN ('pending', 'failed')
        OR o.in_doubt = n.knew_doubt AND coalesce(o.provider_reference, '') = n.knew_reference)
    RETURNING o.tenant_id, o.id, o.idempotency_key, o.status, o.last_event, o.attempt, o.epoch, o.args_hash, o.revision, o.updated_at,
        o.provider_reference, o.incident, o.lease, o.resolves, o.next_attempt_at, o.window_ends_at, o.watch_until,
        o.audit_chain, n.reference,
        n.from_status, n.actor, n.detail, n.outcome /* reviews returned */
), /* reviews */ audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, at, event, from_status, to_status, attempt, epoch, args_hash, actor, detail, outcome, reference, chain)
    SELECT tenant_id, id, revision, updated_at, last_event, from_status, status, attempt, epoch, args_hash, actor, detail, nullif(outcome, ''),
        nullif(reference, ''), audit_chain FROM moved
)
-- What the caller cannot know.
SELECT id, updated_at, revision, coalesce(provider_reference, ''), coalesce(incident, ''), lease, resolves, next_attempt_at, window_ends_at, watch_until
FROM moved
