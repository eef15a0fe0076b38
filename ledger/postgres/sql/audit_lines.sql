-- Every event of a partition as a line of JSON, in the order of its key. The
-- text does not depend on settings, so that it can be compared later. Whether an
-- event is the last one of its operation is said, so that what was taken off the
-- end of an operation in a file shows.
SELECT row_to_json(line)::text FROM (
    SELECT tenant_id, operation_id, sequence, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
        event, from_status, to_status, attempt, epoch, encode(args_hash, 'hex') AS args_hash, actor, detail, outcome, idempotency_key,
        context::text AS context, reference, encode(chain, 'hex') AS chain,
        lead(sequence) OVER (PARTITION BY tenant_id, operation_id ORDER BY sequence) IS NULL AS last
    FROM ONLY /* partition */
    ORDER BY tenant_id, operation_id, sequence) line
