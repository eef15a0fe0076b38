-- The one guarded move of an operation that exists. No row comes back when it
-- is no longer as the caller knew it.
WITH moved AS (
    UPDATE operations o SET
        status = @to, last_event = @event, effect = @effect, reason = @reason, in_doubt = @in_doubt,
        -- What is released starts anew; the audit record has the old reference.
        provider_reference = CASE WHEN @event::text = 'release' THEN NULL ELSE coalesce(nullif(@reference, ''), o.provider_reference) END,
        result_json = @receipt::json,
        error_json = @failure::json,
        epoch = o.epoch + @bump::int,
        request_hash = CASE WHEN @bump::int = 1 THEN NULL ELSE o.request_hash END,
        key_horizon = CASE WHEN @bump::int = 1 THEN NULL ELSE o.key_horizon END,
        resolves = CASE WHEN @to::text = 'unknown' AND NOT @reset_resolves THEN o.resolves ELSE 0 END,
        negative_reads = 0,
        doubted_at = CASE WHEN @event::text = 'doubt' THEN t.now ELSE o.doubted_at END,
        lease_expires_at = NULL,
        next_attempt_at = CASE WHEN @to::text IN ('pending', 'unknown') THEN t.now + @delay_us::bigint * interval '1 microsecond' END,
        window_ends_at = CASE WHEN @to::text IN ('succeeded', 'failed') THEN t.now + o.retention END,
        watch_until = CASE WHEN @watch_us::bigint > 0 THEN t.now + @watch_us::bigint * interval '1 microsecond' ELSE o.watch_until END,
        watch_next_at = CASE WHEN @to::text IN ('succeeded', 'failed') AND (@watch_us::bigint > 0 OR o.watch_until IS NOT NULL) THEN t.now END,
        arguments_sealed = CASE WHEN @to::text IN ('succeeded', 'failed') AND @watch_us::bigint = 0 AND o.watch_until IS NULL
            THEN NULL ELSE o.arguments_sealed END,
        revision = o.revision + 1, updated_at = t.now
    FROM (SELECT clock_timestamp() AS now) t
    WHERE o.tenant_id = @tenant AND o.id = @id::uuid
      -- Not a plain comparison: the planner would take a partial index of all rows
      -- in that state, dead ones included, for the way to this one.
      AND o.status || '' = @from AND o.attempt = @attempt AND o.epoch = @epoch
      AND (NOT @leased OR o.lease = @lease)
      -- A review lapses by its own time, not by that of one before it.
      AND (@event::text <> 'expire' OR @from::text <> 'needs_review' OR EXISTS (
        SELECT FROM reviews r WHERE r.tenant_id = @tenant AND r.operation_id = o.id AND r.decision IS NULL AND r.expires_at <= t.now))
      AND (@decided::text = '' OR EXISTS (
        SELECT FROM reviews r WHERE r.tenant_id = @tenant AND r.id = nullif(@decided, '')::uuid AND r.operation_id = o.id AND r.decision IS NULL))
      -- A second receipt with another reference never overwrites the first.
      AND (@from::text = 'needs_review' OR @reference = '' OR o.provider_reference IS NULL OR o.provider_reference = @reference)
      -- Doubt that came up meanwhile (a late receipt) outweighs a proof of
      -- absence that did not know of it.
      AND (@to::text NOT IN ('pending', 'failed')
        OR o.in_doubt = @knew_doubt AND coalesce(o.provider_reference, '') = @knew_reference)
    RETURNING o.*
), ended AS (
    UPDATE attempts a SET ended_at = clock_timestamp(), outcome = @outcome, evidence = @evidence
    FROM moved m
    WHERE @outcome <> '' AND a.tenant_id = @tenant AND a.operation_id = @id::uuid AND a.number = m.attempt AND a.ended_at IS NULL
), asked AS (
    INSERT INTO reviews (tenant_id, id, operation_id, reason, detail, args_hash, expires_at)
    SELECT tenant_id, @review_id::uuid, id, @review_reason, @review_detail, args_hash,
        CASE WHEN @review_expires_us::bigint > 0 THEN clock_timestamp() + @review_expires_us::bigint * interval '1 microsecond' END
    FROM moved WHERE status = 'needs_review'
), answered AS (
    UPDATE reviews r SET decision = @decision, decided_by = @decided_by, note = @note, decided_at = clock_timestamp()
    FROM moved m
    WHERE @from = 'needs_review' AND r.tenant_id = @tenant AND r.operation_id = m.id AND r.decision IS NULL
), audited AS (
    INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail)
    SELECT tenant_id, id, revision, last_event, @from, status, attempt, epoch, args_hash, @actor, @detail FROM moved
)
SELECT /* operation columns */ FROM moved o
