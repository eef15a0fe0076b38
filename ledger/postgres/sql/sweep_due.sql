SELECT EXISTS (SELECT FROM operations WHERE sweep_at <= (SELECT clock_timestamp()))
