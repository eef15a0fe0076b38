package postgres

// RequestPath returns the statements that a request waits for, by name.
func RequestPath() map[string]string {
	return map[string]string{
		"open": openSQL, "get by key": getByKeySQL, "tombstone": tombstoneSQL, "expired": expiredSQL, "retire": retireSQL,
		"start": startSQL, "claim found": claimFoundSQL, "change": changeSQL, "correct": correctSQL, "evidence": evidenceSQL,
		"get": getSQL, "attempts": attemptsSQL, "latest review": latestReviewSQL, "arguments": argumentsSQL,
		"review": reviewSQL, "poll": pollSQL,
	}
}

// Background returns the reconciler's statements, by name.
func Background() map[string]string {
	return map[string]string{
		"expire leases": expireLeasesSQL, "due pending": duePendingSQL, "lease unknown": leaseUnknownSQL,
		"expired reviews": expiredReviewsSQL, "lease watched": leaseWatchedSQL, "bury": burySQL, "sweep": sweepSQL,
	}
}
