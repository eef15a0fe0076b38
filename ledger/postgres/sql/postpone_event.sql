UPDATE webhook_inbox SET next_look_at = clock_timestamp() + @delay_us::bigint * interval '1 microsecond'
WHERE tenant_id = @tenant AND provider = @provider AND event_id = @id AND looks = @looks AND processed_at IS NULL
