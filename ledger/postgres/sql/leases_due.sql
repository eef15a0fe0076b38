SELECT EXISTS (SELECT FROM leases WHERE expires_at <= (SELECT clock_timestamp()))
