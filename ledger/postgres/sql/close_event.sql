-- What it said is in the operation and its audit record now; that it was said
-- stays for a while.
UPDATE webhook_inbox SET processed_at = clock_timestamp(), next_look_at = NULL, note = @note, receipt_json = NULL, failure_json = NULL
WHERE tenant_id = @tenant AND provider = @provider AND event_id = @id AND looks = @looks AND processed_at IS NULL
