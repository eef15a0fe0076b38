-- Records a request in the stage observe, and finds out whether its key was taken
-- by one before it. Who comes second waits for the first one's row, so that of any
-- number at once one is the first. Only what would have become an operation takes
-- a key, and is compared with who has it.
WITH holder AS (
    INSERT INTO observed_keys AS known (tenant_id, idempotency_key, action_type, args_hash, observation_id)
    SELECT @tenant::text, @key::text, @action_type::text, @args_hash::bytea, @id::uuid
    WHERE @key::text <> '' AND @outcome::text IN ('execute', 'require_approval')
    ON CONFLICT (tenant_id, idempotency_key) DO UPDATE SET observation_id = known.observation_id
    RETURNING action_type, args_hash, observation_id
)
INSERT INTO observations (tenant_id, id, actor, action_type, idempotency_key, args_hash, run_json, outcome, verdict_json,
    amount, currency, charges_json, fences_json)
SELECT @tenant::text, @id::uuid, @actor::text, @action_type::text, @key::text, @args_hash::bytea, @run::json,
    CASE
        WHEN holder.observation_id IS NULL OR holder.observation_id = @id::uuid THEN @outcome::text
        WHEN holder.action_type = @action_type::text AND holder.args_hash = @args_hash::bytea THEN 'duplicate'
        ELSE 'mismatch'
    END,
    @verdict::json, nullif(@amount::text, '')::numeric, @currency::text, @charges::json, @fences::json
FROM (SELECT) one LEFT JOIN holder ON true
RETURNING outcome
