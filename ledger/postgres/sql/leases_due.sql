SELECT EXISTS (SELECT FROM leases WHERE expires_at <= statement_timestamp())
