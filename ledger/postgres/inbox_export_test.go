package postgres

// InboxPath returns the statements of the webhook inbox that name one tenant, by
// name.
func InboxPath() map[string]string {
	return map[string]string{"store events": storeEventsSQL, "postpone event": postponeEventSQL, "close event": closeEventSQL}
}

// InboxBackground returns those that look across tenants.
func InboxBackground() map[string]string {
	return map[string]string{"lease events": leaseEventsSQL, "sweep events": sweepEventsSQL}
}

// Referenced returns the statement that finds operations by a provider's
// reference.
func Referenced() string { return referencedSQL }
