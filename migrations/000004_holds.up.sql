-- Budgets and intents: what an operation takes in the transaction that records
-- it. docs/decisions/012 says why it is made like this.
--
-- The order in which every transaction takes locks: keys and rows of operations,
-- rows of holds, counters, intents; each kind in the order of its primary key.

BEGIN;

ALTER TABLE operations
    ADD COLUMN held         boolean NOT NULL DEFAULT false,
    -- Bounds of the policy; NULL: those of the action type alone.
    ADD COLUMN max_attempts integer,
    ADD COLUMN give_up_at   timestamptz;

-- What one operation holds, in line with its state: held while it is open, spent
-- when it succeeded, released when it failed. Changing the state of this row is
-- what makes giving back happen once.
CREATE TABLE holds (
    tenant_id       text COLLATE "C" NOT NULL,
    operation_id    uuid          NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    state           text          NOT NULL CHECK (state IN ('held', 'spent', 'released')),
    held_at         timestamptz   NOT NULL,
    -- One element for each charge: where, when it is given back, how much, and
    -- the window in which it counts from its success on.
    counters        text[]        NOT NULL,
    kinds           text[]        NOT NULL,
    amounts         numeric[]     NOT NULL,
    units           text[]        NOT NULL,
    zones           text[]        NOT NULL,
    slidings_us     bigint[]      NOT NULL,
    -- One element for each fence: which intent, and its quiet time in µs.
    intents         text[]        NOT NULL,
    quiets          bigint[]      NOT NULL,
    PRIMARY KEY (tenant_id, operation_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- What a counter counts: what open operations hold, in whatever window that is
-- (L8), and the buckets of what is used. A bucket is named by the instant at which
-- it stops to count: the end of the calendar's unit, the time at which the last
-- thing in a sliding step leaves the window, or infinity. So everything but using
-- can do without knowing the window. No index has a column that charging changes.
CREATE TABLE budget_counters (
    tenant_id  text COLLATE "C" NOT NULL,
    counter    text COLLATE "C" NOT NULL CHECK (octet_length(counter) BETWEEN 1 AND 400),
    held       numeric       NOT NULL DEFAULT 0,
    ends       timestamptz[] NOT NULL DEFAULT '{}',
    amounts    numeric[]     NOT NULL DEFAULT '{}',
    charged_at timestamptz   NOT NULL DEFAULT clock_timestamp(),
    -- When the clean-up looks whether it can go.
    sweep_at   timestamptz   NOT NULL DEFAULT date_bin('15 minutes', clock_timestamp() + interval '1 day', timestamptz '2000-01-01 00:00Z'),
    PRIMARY KEY (tenant_id, counter)
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX budget_counters_sweep_due ON budget_counters (sweep_at);

-- Who holds an intent, while it is open and then until quiet_until. A holder who
-- came in the quiet time of another one (distinct from it) gives it back as it
-- was when it fails. A previous one until infinity is open itself: called failed,
-- and contradicted while somebody else had the intent. It has it next.
CREATE TABLE intents (
    tenant_id            text COLLATE "C" NOT NULL,
    intent               text COLLATE "C" NOT NULL CHECK (octet_length(intent) BETWEEN 1 AND 400),
    operation_id         uuid NOT NULL,
    idempotency_key      text COLLATE "C" NOT NULL,
    quiet_until          timestamptz,
    previous_id          uuid,
    previous_key         text COLLATE "C",
    previous_quiet_until timestamptz,
    PRIMARY KEY (tenant_id, intent)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX intents_quiet ON intents (quiet_until) WHERE quiet_until IS NOT NULL;

-- Batches --------------------------------------------------------------------

ALTER TYPE opening_row ADD ATTRIBUTE held boolean, ADD ATTRIBUTE max_attempts integer, ADD ATTRIBUTE give_up_us bigint;

-- An operation that this transaction records ('open'), corrects ('correct') or
-- moves ('move', without charges and fences).
CREATE TYPE held_row AS (
    tenant_id text, id uuid, idempotency_key text, how text, distinct_from uuid,
    counters text[], kinds text[], amounts text[], mosts text[], units text[], zones text[], slidings_us bigint[],
    intents text[], quiets_us bigint[]
);

-- Until when what is used at a moment counts. A sliding window goes in sixty
-- steps; what is used in one counts until the last instant of the step has
-- left the window, so that at no instant more than the limit is in it.
-- (One expression, so that it is a part of the statement that asks.)
CREATE FUNCTION hold_ends(unit text, zone text, sliding_us bigint, moment timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN sliding_us > 0 THEN date_bin((sliding_us + 59) / 60 * interval '1 microsecond', moment, timestamptz '2000-01-01 00:00Z')
            + ((sliding_us + 59) / 60 + sliding_us) * interval '1 microsecond'
        WHEN unit = '' THEN 'infinity'
        WHEN unit IN ('minute', 'hour') THEN date_trunc(unit, moment, zone) + ('1 ' || unit)::interval
        -- By the wall clock: a day may have 23 or 25 hours.
        ELSE (date_trunc(unit, moment AT TIME ZONE zone) + ('1 ' || unit)::interval) AT TIME ZONE zone
    END;

-- The same where no error may come in the way, which is at a success: a receipt is
-- not lost for a zone that the database knew when the operation was recorded, and
-- knows no more (a system update may drop old names). UTC stands in for it.
CREATE FUNCTION hold_ends_anyway(unit text, zone text, sliding_us bigint, moment timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN hold_ends(unit, zone, sliding_us, moment);
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN hold_ends(unit, 'UTC', sliding_us, moment);
END
$$;

-- When an amount that does not fit now fits, if nothing else is charged; NULL
-- where that is not known. What is held does not become free by time.
CREATE FUNCTION hold_free_at(held numeric, ends timestamptz[], amounts numeric[], amount numeric, most numeric, moment timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT min(b.ends)
        FROM (SELECT e.ends, held + sum(e.amount) OVER () AS used, sum(e.amount) OVER (ORDER BY e.ends) AS leaves
            FROM unnest(ends, amounts) AS e (ends, amount) WHERE e.ends > moment) b
        WHERE b.used + amount > most AND b.used - b.leaves + amount <= most AND b.ends < 'infinity');

-- Changes counters that the caller has locked, each once: by what open operations
-- hold, or by what is used until some end. It forgets the buckets that are past.
CREATE FUNCTION charge_counters(tenants text[], counters text[], helds boolean[], ends timestamptz[], amounts numeric[], moment timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE budget_counters c SET
        -- A counter that somebody removed by hand gives no credit.
        held = CASE WHEN c.held + k.held > 0 THEN c.held + k.held ELSE 0 END,
        (ends, amounts) = (
            SELECT coalesce(array_agg(m.ends), '{}'), coalesce(array_agg(m.amount), '{}')
            FROM (SELECT b.ends, sum(b.amount) AS amount
                FROM unnest(c.ends || k.ends, c.amounts || k.amounts) AS b (ends, amount)
                WHERE b.ends > moment
                GROUP BY b.ends
                HAVING sum(b.amount) > 0
                ORDER BY b.ends) m),
        charged_at = moment
    FROM (SELECT d.tenant_id, d.counter, coalesce(sum(d.amount) FILTER (WHERE d.held), 0) AS held,
            array_agg(d.ends) FILTER (WHERE NOT d.held) AS ends, array_agg(d.amount) FILTER (WHERE NOT d.held) AS amounts
        FROM unnest(tenants, counters, helds, ends, amounts) AS d (tenant_id, counter, held, ends, amount)
        GROUP BY d.tenant_id, d.counter) k
    WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter;
END
$$;

-- Brings the holds of a transaction's operations in line with their states: gives
-- back and takes back for those that were moved, then lets new and corrected ones
-- in, in the order given, while everything fits. A new operation that does not
-- fit is removed again. It returns what came of new and corrected operations that
-- are really there: charge and fence number what did not fit, from 1.
CREATE FUNCTION take_holds(wanted held_row[])
    RETURNS TABLE (tenant_id text, operation_id uuid, idempotency_key text, how text, admitted boolean,
        charge integer, used text, free_at timestamptz, fence integer, holder_id uuid, holder_key text, quiet_until timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me     CONSTANT xid := pg_current_xact_id()::xid;
    moment timestamptz;
    here   boolean[]; -- of wanted: new or corrected, and really there
    ids    uuid[];    -- of those
    -- Operations that moved: from one state of holds to another.
    m_tenants text[];
    m_ids     uuid[];
    m_from    text[];
    m_to      text[];
    -- What they give back, take back or use; later what new ones take.
    d_tenants  text[];
    d_counters text[];
    d_helds    boolean[]; -- in what open operations hold, or else in a bucket
    d_amounts  numeric[];
    d_units    text[];
    d_zones    text[];
    d_slidings bigint[];
    d_ends     timestamptz[];
    -- Their fences.
    g_tenants text[];
    g_ids     uuid[];
    g_keys    text[];
    g_to      text[];
    g_intents text[];
    g_quiets  bigint[];
    -- The charges of those that are here; the slot is the place of the counter.
    c_owners  integer[];
    c_places  integer[];
    c_slots   integer[];
    c_amounts numeric[];
    c_mosts   numeric[];
    useds     numeric[]; -- by slot
    -- Their fences; the slot is the place of the intent.
    f_owners integer[];
    f_places integer[];
    f_slots  integer[];
    i_ids    uuid[]; -- by slot
    i_keys   text[];
    i_quiets timestamptz[];
    -- What came of each of wanted.
    r_admitted boolean[];
    r_charge   integer[];
    r_used     numeric[];
    r_fence    integer[];
    r_id       uuid[];
    r_key      text[];
    r_quiet    timestamptz[];
    w held_row;
    p integer := 0;
    c integer := 1;
    f integer := 1;
    s integer;
    first integer;
    wrong boolean;
BEGIN
    -- Rows of holds first. Who has one and sees its operation's state has the
    -- state that the row is to be in line with: another transaction that moves
    -- the operation comes here after its move.
    PERFORM FROM unnest(wanted) AS w JOIN holds h ON h.tenant_id = w.tenant_id AND h.operation_id = w.id
    WHERE w.how <> 'open' ORDER BY h.tenant_id, h.operation_id FOR UPDATE OF h;
    IF FOUND THEN
        SELECT array_agg(m.tenant_id), array_agg(m.operation_id), array_agg(m.state), array_agg(m.becomes)
        INTO m_tenants, m_ids, m_from, m_to
        FROM (SELECT h.tenant_id, h.operation_id, h.state,
                CASE o.status WHEN 'succeeded' THEN 'spent' WHEN 'failed' THEN 'released' ELSE 'held' END AS becomes
            FROM unnest(wanted) AS w
            JOIN holds h ON h.tenant_id = w.tenant_id AND h.operation_id = w.id
            JOIN operations o ON o.tenant_id = h.tenant_id AND o.idempotency_key = h.idempotency_key AND o.id = h.operation_id
            WHERE w.how = 'move') m
        WHERE m.becomes <> m.state AND m.state <> 'spent'; -- which is for good
        -- In and out of what is held, and what was used into its bucket. A rate stays
        -- where it was recorded.
        SELECT array_agg(h.tenant_id), array_agg(a.counter), array_agg(x.held), array_agg(a.amount * x.times),
            array_agg(a.unit), array_agg(a.zone), array_agg(a.sliding_us)
        INTO d_tenants, d_counters, d_helds, d_amounts, d_units, d_zones, d_slidings
        FROM unnest(m_tenants, m_ids, m_from, m_to) AS m (tenant_id, id, was, becomes)
        JOIN holds h ON h.tenant_id = m.tenant_id AND h.operation_id = m.id
        CROSS JOIN LATERAL unnest(h.counters, h.kinds, h.amounts, h.units, h.zones, h.slidings_us) AS a (counter, kind, amount, unit, zone, sliding_us)
        CROSS JOIN LATERAL (VALUES
            (true, (m.becomes = 'held')::int - (m.was = 'held')::int),
            (false, (m.becomes = 'spent' AND a.kind = 'use')::int)) AS x (held, times)
        WHERE a.kind <> 'rate' AND x.times <> 0;
        SELECT array_agg(h.tenant_id), array_agg(h.operation_id), array_agg(h.idempotency_key), array_agg(m.becomes), array_agg(a.intent), array_agg(a.quiet_us)
        INTO g_tenants, g_ids, g_keys, g_to, g_intents, g_quiets
        FROM unnest(m_tenants, m_ids, m_to) AS m (tenant_id, id, becomes)
        JOIN holds h ON h.tenant_id = m.tenant_id AND h.operation_id = m.id
        CROSS JOIN LATERAL unnest(h.intents, h.quiets) AS a (intent, quiet_us);
        UPDATE holds h SET state = m.becomes
        FROM unnest(m_tenants, m_ids, m_to) AS m (tenant_id, id, becomes)
        WHERE h.tenant_id = m.tenant_id AND h.operation_id = m.id;
    END IF;

    -- Of new operations and corrections, only those that this transaction made.
    SELECT array_agg(x.here), array_agg(x.id) FILTER (WHERE x.here) INTO here, ids
    FROM (SELECT w.id, w.how <> 'move' AND EXISTS (
            SELECT FROM operations o WHERE o.tenant_id = w.tenant_id AND o.idempotency_key = w.idempotency_key AND o.id = w.id AND o.xmin = me) AS here
        FROM unnest(wanted) WITH ORDINALITY AS w ORDER BY w.ordinality) x;

    -- Locks a counter, whether it is there or not, and writes none that is there.
    INSERT INTO budget_counters AS n (tenant_id, counter)
    SELECT x.tenant_id, x.counter FROM (
        SELECT w.tenant_id COLLATE "C" AS tenant_id, a.counter COLLATE "C" AS counter
        FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.counters) AS a (counter) WHERE here[w.ordinality]
        UNION
        SELECT d.tenant_id, d.counter FROM unnest(d_tenants, d_counters) AS d (tenant_id, counter)) x
    ORDER BY x.tenant_id, x.counter
    ON CONFLICT (tenant_id, counter) DO UPDATE SET counter = excluded.counter WHERE false;

    -- The same with intents. One that is not there gets who wants it first.
    INSERT INTO intents AS n (tenant_id, intent, operation_id, idempotency_key)
    SELECT DISTINCT ON (x.tenant_id, x.intent) x.tenant_id, x.intent, x.id, x.idempotency_key FROM (
        SELECT g.tenant_id COLLATE "C" AS tenant_id, g.intent COLLATE "C" AS intent, g.id, g.idempotency_key, 0 AS place
        FROM unnest(g_tenants, g_intents, g_ids, g_keys) AS g (tenant_id, intent, id, idempotency_key)
        UNION ALL
        SELECT w.tenant_id COLLATE "C", a.intent COLLATE "C", w.id, w.idempotency_key, w.ordinality
        FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.intents) AS a (intent) WHERE here[w.ordinality]) x
    ORDER BY x.tenant_id, x.intent, x.place
    ON CONFLICT (tenant_id, intent) DO UPDATE SET intent = excluded.intent WHERE false;

    -- The one reading of the clock, when nobody can come between.
    moment := clock_timestamp();

    IF d_tenants IS NOT NULL THEN
        BEGIN
            d_ends := ARRAY(SELECT hold_ends(a.unit, a.zone, a.sliding_us, moment)
                FROM unnest(d_units, d_zones, d_slidings) WITH ORDINALITY AS a (unit, zone, sliding_us, place) ORDER BY a.place);
        EXCEPTION WHEN invalid_parameter_value THEN
            d_ends := ARRAY(SELECT hold_ends_anyway(a.unit, a.zone, a.sliding_us, moment)
                FROM unnest(d_units, d_zones, d_slidings) WITH ORDINALITY AS a (unit, zone, sliding_us, place) ORDER BY a.place);
        END;
        PERFORM charge_counters(d_tenants, d_counters, d_helds, d_ends, d_amounts, moment);
    END IF;
    IF g_tenants IS NOT NULL THEN
        -- An effect after all. A fence that nobody is open under is closed again;
        -- who has his quiet time there gets it back if there is no effect.
        UPDATE intents i SET operation_id = g.id, idempotency_key = g.idempotency_key, quiet_until = NULL,
            previous_id = CASE WHEN i.quiet_until > moment THEN i.operation_id END,
            previous_key = CASE WHEN i.quiet_until > moment THEN i.idempotency_key END,
            previous_quiet_until = CASE WHEN i.quiet_until > moment THEN i.quiet_until END
        FROM unnest(g_tenants, g_intents, g_ids, g_keys, g_to) AS g (tenant_id, intent, id, idempotency_key, becomes)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent
          AND (g.becomes = 'held' AND i.quiet_until IS NOT NULL OR g.becomes = 'spent' AND i.quiet_until <= moment);
        -- Where another one is open under it, it comes after him: the previous one,
        -- without an end for as long as it is open.
        UPDATE intents i SET previous_id = g.id, previous_key = g.idempotency_key, previous_quiet_until = 'infinity'
        FROM unnest(g_tenants, g_intents, g_ids, g_keys, g_to) AS g (tenant_id, intent, id, idempotency_key, becomes)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND g.becomes = 'held'
          AND i.operation_id <> g.id AND i.quiet_until IS NULL AND i.previous_quiet_until IS DISTINCT FROM 'infinity';
        UPDATE intents i SET previous_quiet_until = CASE WHEN g.becomes = 'spent' THEN moment + g.quiet_us * interval '1 microsecond' END
        FROM unnest(g_tenants, g_intents, g_ids, g_to, g_quiets) AS g (tenant_id, intent, id, becomes, quiet_us)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND i.previous_id = g.id
          AND g.becomes <> 'held' AND i.previous_quiet_until = 'infinity';
        UPDATE intents i SET operation_id = i.previous_id, idempotency_key = i.previous_key, quiet_until = NULL,
            previous_id = CASE WHEN g.becomes = 'spent' THEN g.id END,
            previous_key = CASE WHEN g.becomes = 'spent' THEN g.idempotency_key END,
            previous_quiet_until = CASE WHEN g.becomes = 'spent' THEN moment + g.quiet_us * interval '1 microsecond' END
        FROM unnest(g_tenants, g_intents, g_ids, g_keys, g_to, g_quiets) AS g (tenant_id, intent, id, idempotency_key, becomes, quiet_us)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND i.operation_id = g.id
          AND g.becomes <> 'held' AND i.previous_quiet_until = 'infinity';
        UPDATE intents i SET quiet_until = greatest(moment + g.quiet_us * interval '1 microsecond', i.previous_quiet_until),
            previous_id = NULL, previous_key = NULL, previous_quiet_until = NULL
        FROM unnest(g_tenants, g_intents, g_ids, g_to, g_quiets) AS g (tenant_id, intent, id, becomes, quiet_us)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND i.operation_id = g.id
          AND g.becomes = 'spent' AND (g.quiet_us > 0 OR i.previous_quiet_until > moment);
        UPDATE intents i SET operation_id = i.previous_id, idempotency_key = i.previous_key, quiet_until = i.previous_quiet_until,
            previous_id = NULL, previous_key = NULL, previous_quiet_until = NULL
        FROM unnest(g_tenants, g_intents, g_ids, g_to) AS g (tenant_id, intent, id, becomes)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND i.operation_id = g.id
          AND g.becomes = 'released' AND i.previous_quiet_until > moment;
        DELETE FROM intents i
        USING unnest(g_tenants, g_intents, g_ids, g_to) AS g (tenant_id, intent, id, becomes)
        WHERE i.tenant_id = g.tenant_id AND i.intent = g.intent AND i.operation_id = g.id
          AND g.becomes <> 'held' AND i.quiet_until IS NULL;
    END IF;
    IF ids IS NULL THEN
        RETURN;
    END IF;

    SELECT array_agg(x.owner), array_agg(x.place), array_agg(x.slot), array_agg(x.amount), array_agg(x.most)
    INTO c_owners, c_places, c_slots, c_amounts, c_mosts
    FROM (SELECT w.ordinality AS owner, a.place, a.amount::numeric AS amount, a.most::numeric AS most,
            dense_rank() OVER (ORDER BY w.tenant_id COLLATE "C", a.counter COLLATE "C") AS slot
        FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.counters, w.amounts, w.mosts) WITH ORDINALITY AS a (counter, amount, most, place)
        WHERE here[w.ordinality] ORDER BY w.ordinality, a.place) x;
    SELECT array_agg(x.held + coalesce((SELECT sum(b.amount) FROM unnest(x.ends, x.amounts) AS b (ends, amount) WHERE b.ends > moment), 0))
    INTO useds
    FROM (SELECT n.held, n.ends, n.amounts FROM (
            SELECT DISTINCT w.tenant_id COLLATE "C" AS tenant_id, a.counter COLLATE "C" AS counter
            FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.counters) AS a (counter) WHERE here[w.ordinality]) k
        JOIN budget_counters n ON n.tenant_id = k.tenant_id AND n.counter = k.counter
        ORDER BY k.tenant_id, k.counter) x;
    SELECT array_agg(x.owner), array_agg(x.place), array_agg(x.slot) INTO f_owners, f_places, f_slots
    FROM (SELECT w.ordinality AS owner, a.place, dense_rank() OVER (ORDER BY w.tenant_id COLLATE "C", a.intent COLLATE "C") AS slot
        FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.intents) WITH ORDINALITY AS a (intent, place)
        WHERE here[w.ordinality] ORDER BY w.ordinality, a.place) x;
    -- Nobody holds what this function has just given to the first who wants it.
    SELECT array_agg(CASE WHEN x.operation_id <> ALL (ids) THEN x.operation_id END), array_agg(x.idempotency_key), array_agg(x.quiet_until)
    INTO i_ids, i_keys, i_quiets
    FROM (SELECT i.operation_id, i.idempotency_key, i.quiet_until FROM (
            SELECT DISTINCT w.tenant_id COLLATE "C" AS tenant_id, a.intent COLLATE "C" AS intent
            FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.intents) AS a (intent) WHERE here[w.ordinality]) k
        LEFT JOIN intents i ON i.tenant_id = k.tenant_id AND i.intent = k.intent
        ORDER BY k.tenant_id, k.intent) x;

    FOREACH w IN ARRAY wanted LOOP
        p := p + 1;
        CONTINUE WHEN NOT here[p];
        wrong := false;
        first := c;
        WHILE NOT wrong AND c_owners[c] = p LOOP
            s := c_slots[c];
            -- What is not a number does not fit.
            IF useds[s] + c_amounts[c] <= c_mosts[c] AND c_mosts[c] < 'NaN' AND c_amounts[c] >= 0 THEN
                useds[s] := useds[s] + c_amounts[c];
                c := c + 1;
            ELSE
                wrong := true;
                r_charge[p] := c_places[c];
                r_used[p] := useds[s];
            END IF;
        END LOOP;
        WHILE NOT wrong AND f_owners[f] = p LOOP
            s := f_slots[f];
            IF i_ids[s] IS NOT NULL AND (i_quiets[s] IS NULL OR i_quiets[s] > moment AND i_ids[s] IS DISTINCT FROM w.distinct_from) THEN
                wrong := true;
                r_fence[p] := f_places[f];
                r_id[p] := i_ids[s];
                r_key[p] := i_keys[s];
                r_quiet[p] := i_quiets[s];
            END IF;
            f := f + 1;
        END LOOP;
        IF wrong THEN
            FOR n IN first .. c - 1 LOOP
                useds[c_slots[n]] := useds[c_slots[n]] - c_amounts[n];
            END LOOP;
        ELSE
            FOR n IN f - cardinality(w.intents) .. f - 1 LOOP
                i_ids[f_slots[n]] := w.id;
                i_keys[f_slots[n]] := w.idempotency_key;
                i_quiets[f_slots[n]] := NULL;
            END LOOP;
        END IF;
        WHILE c_owners[c] = p LOOP
            c := c + 1;
        END LOOP;
        WHILE f_owners[f] = p LOOP
            f := f + 1;
        END LOOP;
        r_admitted[p] := NOT wrong;
    END LOOP;

    -- The end of what is held is not asked for yet, but a zone that the database
    -- does not know is refused here rather than at the success.
    SELECT array_agg(w.tenant_id), array_agg(a.counter), array_agg(a.kind <> 'rate'), array_agg(hold_ends(a.unit, a.zone, a.sliding_us, moment)), array_agg(a.amount::numeric)
    INTO d_tenants, d_counters, d_helds, d_ends, d_amounts
    FROM unnest(wanted) WITH ORDINALITY AS w,
        unnest(w.counters, w.kinds, w.amounts, w.units, w.zones, w.slidings_us) AS a (counter, kind, amount, unit, zone, sliding_us)
    WHERE r_admitted[w.ordinality];
    IF d_tenants IS NOT NULL THEN
        PERFORM charge_counters(d_tenants, d_counters, d_helds, d_ends, d_amounts, moment);
    END IF;
    INSERT INTO holds AS h (tenant_id, operation_id, idempotency_key, state, held_at, counters, kinds, amounts, units, zones, slidings_us, intents, quiets)
    SELECT w.tenant_id, w.id, w.idempotency_key, 'held', moment, w.counters, w.kinds, w.amounts::numeric[], w.units, w.zones, w.slidings_us,
        w.intents, w.quiets_us
    FROM unnest(wanted) WITH ORDINALITY AS w WHERE r_admitted[w.ordinality]
    -- A correction's holds take the place of those that were given back.
    ON CONFLICT (tenant_id, operation_id) DO UPDATE SET state = 'held', held_at = excluded.held_at, counters = excluded.counters,
        kinds = excluded.kinds, amounts = excluded.amounts, units = excluded.units, zones = excluded.zones, slidings_us = excluded.slidings_us,
        intents = excluded.intents, quiets = excluded.quiets;
    INSERT INTO intents AS i (tenant_id, intent, operation_id, idempotency_key)
    SELECT w.tenant_id, a.intent, w.id, w.idempotency_key
    FROM unnest(wanted) WITH ORDINALITY AS w, unnest(w.intents) AS a (intent) WHERE r_admitted[w.ordinality]
    ON CONFLICT (tenant_id, intent) DO UPDATE SET operation_id = excluded.operation_id, idempotency_key = excluded.idempotency_key, quiet_until = NULL,
        previous_id = CASE WHEN i.quiet_until > moment THEN i.operation_id END,
        previous_key = CASE WHEN i.quiet_until > moment THEN i.idempotency_key END,
        previous_quiet_until = CASE WHEN i.quiet_until > moment THEN i.quiet_until END
    WHERE i.operation_id <> excluded.operation_id;

    IF false = ANY (r_admitted) THEN
        DELETE FROM intents i USING unnest(wanted) WITH ORDINALITY AS w, unnest(w.intents) AS a (intent)
        WHERE NOT r_admitted[w.ordinality] AND i.tenant_id = w.tenant_id AND i.intent = a.intent AND i.operation_id = w.id;
        -- A correction is taken back by its transaction.
        DELETE FROM operations o USING unnest(wanted) WITH ORDINALITY AS w
        WHERE NOT r_admitted[w.ordinality] AND w.how = 'open'
          AND o.tenant_id = w.tenant_id AND o.idempotency_key = w.idempotency_key AND o.id = w.id;
    END IF;
    RETURN QUERY SELECT w.tenant_id, w.id, w.idempotency_key, w.how, r_admitted[w.ordinality],
        r_charge[w.ordinality], r_used[w.ordinality]::text,
        CASE WHEN r_charge[w.ordinality] IS NOT NULL THEN (
            SELECT hold_free_at(n.held, n.ends, n.amounts, w.amounts[r_charge[w.ordinality]]::numeric, w.mosts[r_charge[w.ordinality]]::numeric, moment)
            FROM budget_counters n WHERE n.tenant_id = w.tenant_id AND n.counter = w.counters[r_charge[w.ordinality]]) END,
        r_fence[w.ordinality], r_id[w.ordinality], r_key[w.ordinality], r_quiet[w.ordinality]
    FROM unnest(wanted) WITH ORDINALITY AS w WHERE here[w.ordinality];
END
$$;

-- The guard ------------------------------------------------------------------

-- As before, but for holds: an operation that this very transaction has recorded
-- may go again, and a flag that is not forgotten.
CREATE OR REPLACE FUNCTION operations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    IF TG_OP = 'INSERT' AND NEW.last_event = 'claim' AND NEW.status = 'running' AND NEW.effect = 'unknown' AND NOT NEW.in_doubt
        AND NEW.revision = 1 AND NEW.attempt = 1 AND NEW.epoch = 0
        AND octet_length(NEW.idempotency_key) BETWEEN 1 AND 255 AND octet_length(NEW.args_hash) = 32 AND octet_length(NEW.request_hash) = 32
        AND NEW.key_source IN ('caller', 'recipe', 'run_step') AND NEW.expired_key IN ('reject', 'reuse') AND NEW.retention > interval '0'
        AND (NEW.arguments_sealed, NEW.lease_expires_at, NEW.claim_id, NEW.provider_key) IS NOT NULL
        AND (NEW.result_json, NEW.window_ends_at) IS NULL THEN
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' AND OLD.status = 'running' AND NEW.last_event = 'confirm' AND NEW.status = 'succeeded' AND NEW.effect = 'applied'
        AND NOT NEW.in_doubt AND NEW.revision = OLD.revision + 1 AND NEW.attempt = OLD.attempt AND NEW.epoch = OLD.epoch
        AND NEW.args_hash = OLD.args_hash AND NEW.request_hash = OLD.request_hash
        AND NEW.tenant_id = OLD.tenant_id AND NEW.id = OLD.id AND NEW.idempotency_key = OLD.idempotency_key
        AND NEW.action_type = OLD.action_type AND NEW.requested_by = OLD.requested_by AND NEW.created_at = OLD.created_at
        AND NEW.retention = OLD.retention AND NEW.expired_key = OLD.expired_key AND NEW.held = OLD.held
        AND (NEW.result_json, NEW.window_ends_at) IS NOT NULL AND (NEW.arguments_sealed, OLD.incident) IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND NOT operation_sound(NEW) THEN
        broken := format('the columns of a %s operation do not fit together', NEW.status);
    ELSIF TG_OP = 'INSERT' THEN
        IF NOT operation_move_allowed('', NEW.last_event, NEW.status) THEN
            broken := format('a new operation cannot be %s by %s', NEW.status, NEW.last_event);
        ELSIF NEW.revision <> 1 OR NEW.epoch <> 0 OR NEW.attempt <> (NEW.status = 'running')::int THEN
            broken := 'a new operation starts at revision 1, epoch 0 and its first attempt';
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        -- One that this transaction has recorded and whose holds do not fit was
        -- never seen by anybody. (Every change counts the revision up.)
        IF OLD.held AND OLD.revision = 1 AND OLD.xmin = pg_current_xact_id()::xid THEN
            RETURN NULL;
        ELSIF OLD.window_ends_at IS NULL OR OLD.window_ends_at > clock_timestamp() OR OLD.watch_until IS NOT NULL THEN
            broken := format('a %s operation inside its window is not deleted', OLD.status);
        END IF;
    ELSIF (NEW.tenant_id, NEW.id, NEW.idempotency_key, NEW.action_type, NEW.requested_by, NEW.created_at)
          IS DISTINCT FROM
          (OLD.tenant_id, OLD.id, OLD.idempotency_key, OLD.action_type, OLD.requested_by, OLD.created_at) THEN
        broken := 'the identity of an operation never changes';
    ELSIF (NEW.retention, NEW.expired_key) IS DISTINCT FROM (OLD.retention, OLD.expired_key) THEN
        broken := 'how long an operation answers for its key is fixed when it is recorded';
    ELSIF OLD.held AND NOT NEW.held THEN
        broken := 'that an operation has holds is not forgotten';
    ELSIF OLD.incident IS NOT NULL AND NEW.incident IS NULL THEN
        broken := 'an incident is not forgotten';
    ELSIF NEW.arguments_sealed IS DISTINCT FROM OLD.arguments_sealed AND NEW.arguments_sealed IS NOT NULL AND NEW.last_event <> 'correct' THEN
        broken := 'stored arguments are dropped, never rewritten, but by a correction';
    ELSIF NEW.revision <> OLD.revision + 1 THEN
        broken := 'every change counts the revision up by one';
    ELSIF NEW.status = OLD.status THEN
        IF (NEW.last_event, NEW.attempt, NEW.epoch, NEW.args_hash, NEW.request_hash, NEW.effect, NEW.window_ends_at)
           IS DISTINCT FROM
           (OLD.last_event, OLD.attempt, OLD.epoch, OLD.args_hash, OLD.request_hash, OLD.effect, OLD.window_ends_at)
           OR NEW.result_json::text IS DISTINCT FROM OLD.result_json::text
           OR NEW.error_json::text IS DISTINCT FROM OLD.error_json::text
           OR (OLD.in_doubt AND NOT NEW.in_doubt)
           OR (OLD.provider_reference IS NOT NULL AND NEW.provider_reference IS DISTINCT FROM OLD.provider_reference) THEN
            broken := format('a change without a move cannot rewrite a %s operation', OLD.status);
        END IF;
    ELSIF NOT operation_move_allowed(OLD.status, NEW.last_event, NEW.status) THEN
        broken := format('%s does not go to %s by %s', OLD.status, NEW.status, NEW.last_event);
    ELSIF NEW.attempt <> OLD.attempt + (NEW.last_event IN ('claim', 'replay'))::int THEN
        broken := 'the attempt number counts provider calls';
    ELSIF NEW.epoch <> OLD.epoch AND NOT (NEW.epoch = OLD.epoch + 1 AND NEW.last_event IN ('defer', 'release', 'correct')) THEN
        broken := 'the key epoch grows by one, on proof of not-applied only';
    ELSIF NEW.args_hash <> OLD.args_hash AND NOT (NEW.last_event = 'correct' AND OLD.effect = 'not_applied') THEN
        broken := 'only a correction of an operation that was not applied changes arguments';
    ELSIF NEW.request_hash IS DISTINCT FROM OLD.request_hash AND OLD.request_hash IS NOT NULL
          AND NOT (NEW.last_event = 'correct' OR NEW.epoch > OLD.epoch) THEN
        broken := 'what is sent is frozen at the first attempt';
    ELSIF OLD.status = 'running' AND OLD.in_doubt AND NEW.status IN ('pending', 'failed') THEN
        broken := 'an attempt cannot clear the doubt that an earlier one left';
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'illegal move: %', broken USING ERRCODE = 'OW001';
    END IF;
    RETURN NULL;
END
$$;
-- Grants ---------------------------------------------------------------------

GRANT UPDATE (held, max_attempts, give_up_at) ON operations TO onceward_serve;
GRANT SELECT, INSERT, UPDATE, DELETE ON holds, budget_counters, intents TO onceward_serve;
GRANT SELECT ON holds, budget_counters, intents TO onceward_read;
GRANT SELECT (held, max_attempts, give_up_at) ON operations TO onceward_read;

COMMIT;
