SELECT /* operation columns */ FROM operations o
WHERE o.status = 'pending' AND o.next_attempt_at <= (SELECT clock_timestamp())
ORDER BY o.next_attempt_at LIMIT @limit
