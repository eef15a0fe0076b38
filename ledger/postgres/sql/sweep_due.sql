SELECT EXISTS (SELECT FROM operations WHERE sweep_at <= statement_timestamp())
    OR EXISTS (SELECT FROM budget_counters WHERE sweep_at <= statement_timestamp())
    OR EXISTS (SELECT FROM intents WHERE quiet_until <= statement_timestamp())
