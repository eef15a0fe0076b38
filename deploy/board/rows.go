package board

// rows is the dashboard from top to bottom: first whether all is right, then why
// it is not.
func rows() []row {
	return []row{
		{"Is it right?", isItRight()},
		{"Traffic", traffic()},
		{"Providers", providers()},
		{"Reconciler", reconcilers()},
		{"Ledger", ledger()},
		{"Budgets and approvals", budgets()},
		{"Process", processes()},
	}
}

func isItRight() []panel {
	now := func(state string) string {
		return `sum(max by (action_type) (onceward_operations{state="` + state + `", ` + byAction + `}))` + zeroIfLedger
	}
	oldest := func(state string) string {
		return `max(onceward_oldest_operation_age_seconds{state="` + state + `"})` + zeroIfLedger
	}
	return []panel{
		{
			title: "Contradictions", look: tile, width: 3, unit: "short", limits: []limit{{1, red}},
			about:   "Operations with two receipts, or a receipt after a proof of absence, in the range of time. Above 0: two effects may exist. Compare with the provider now.",
			queries: []query{{seen("onceward_contradictions_total", byTenantActionProvider) + zeroIfScraped, ""}},
		},
		{
			title: "Provider saw another body", look: tile, width: 3, unit: "short", limits: []limit{{1, red}},
			about:   "Attempts that a provider refused because it knows our key with other contents, in the range of time. Above 0: one of us is wrong.",
			queries: []query{{seen("onceward_attempts_total", `outcome="key_mismatch", `+byTenantActionProvider) + zeroIfScraped, ""}},
		},
		{
			title: "Unknown now", look: tile, width: 3, unit: "short", limits: []limit{{1, yellow}, {50, red}},
			about:   "Operations whose effect may or may not exist. Some are normal while a provider misbehaves; they must go down again by themselves.",
			queries: []query{{now("unknown"), ""}},
		},
		{
			title: "Oldest unknown", look: tile, width: 3, unit: "s", limits: []limit{{900, yellow}, {3600, red}},
			about:   "Age of the oldest doubt of all tenants. Minutes are normal, hours are not.",
			queries: []query{{oldest("unknown"), ""}},
		},
		{
			title: "Wait for a person", look: tile, width: 3, unit: "short", limits: []limit{{1, yellow}, {50, red}},
			about:   "Open reviews: approvals, doubts that could not be resolved, contradictions. See them with: onceward reviews",
			queries: []query{{now("needs_review"), ""}},
		},
		{
			title: "Oldest review", look: tile, width: 3, unit: "s", limits: []limit{{4 * 3600, yellow}, {24 * 3600, red}},
			about:   "How long the oldest decision has waited for a person.",
			queries: []query{{oldest("needs_review"), ""}},
		},
		{
			title: "Stuck", look: tile, width: 3, unit: "short", limits: []limit{{1, red}},
			about:   "Open operations that somebody should have worked on more than a minute ago. Above 0 for minutes: the reconciler is behind or away.",
			queries: []query{{`sum(max by (state) (onceward_overdue_operations))` + zeroIfLedger, ""}},
		},
		{
			title: "Ledger", look: tile, width: 3, unit: "none",
			about:   "Whether Postgres answers every replica. While it does not, nothing is sent and requests are refused.",
			says:    map[string]word{"1": {"answers", green}, "0": {"DOWN", red}},
			queries: []query{{`min(onceward_ledger_up)`, ""}},
		},
		{
			title: "Requests against effects", look: lines, width: 8, unit: "ops",
			about: "What agents asked for, what was confirmed with a receipt, and the duplicates between them that were answered without sending anything. Effects above requests: what waited (an outage, approvals, a kill switch) is sent now; nothing of it may be more than was asked for.",
			queries: []query{
				{total("onceward_requests_total", byTenantAction), "requests"},
				{total("onceward_moves_total", `event="confirm", `+byTenantAction) + zeroIfScraped, "effects confirmed"},
				{total("onceward_duplicates_total", byTenantAction) + zeroIfScraped, "duplicates prevented"},
			},
		},
		{
			title: "Doubts: in and out", look: lines, width: 8, unit: "ops",
			about: "Operations that became unknown, and those whose doubt ended, by how. A replay that ends in doubt is in once more. In above out for long while \"Unknown now\" climbs: they pile up.",
			queries: []query{
				{total("onceward_doubts_total", byTenantActionProvider) + zeroIfScraped, "in"},
				{rate("result", "onceward_doubt_duration_seconds_count", byProvider), "out: {{result}}"},
			},
		},
		{
			title: "Open operations", look: stacked, width: 8, unit: "short",
			about:   "What is in the ledger and not finished, by state.",
			queries: []query{{`sum by (state) (max by (action_type, state) (onceward_operations{` + byAction + `}))`, "{{state}}"}},
		},
		{
			title: "Age of the oldest", look: lines, width: 8, unit: "s",
			about:   "Age of the oldest open operation in each state. A line that climbs steadily is an operation that nobody touches.",
			queries: []query{{`max by (state) (onceward_oldest_operation_age_seconds)`, "{{state}}"}},
		},
		{
			title: "Share of duplicates", look: lines, width: 8, unit: "percentunit",
			about:   "Requests that were answered with the receipt of an earlier one. A sudden rise is a planner in a loop or a queue that redelivers.",
			queries: []query{{rate("action_type", "onceward_duplicates_total", byTenantAction) + " / " + rate("action_type", "onceward_requests_total", byTenantAction), "{{action_type}}"}},
		},
		{
			title: "Alarms of truth", look: lines, width: 8, unit: "short",
			about: "Each step up is an event that a person must look at: a contradiction, or a provider that saw our key with another body.",
			queries: []query{
				{`sum by (provider) (onceward_contradictions_total{` + byTenantActionProvider + `})`, "contradictions {{provider}}"},
				{`sum by (provider) (onceward_attempts_total{outcome="key_mismatch", ` + byTenantActionProvider + `})`, "key mismatches {{provider}}"},
			},
		},
	}
}

func traffic() []panel {
	return []panel{
		{
			title: "Requests", look: stacked, width: 8, unit: "reqps",
			about:   "Requests that were answered, by what was done with them.",
			queries: []query{{rate("disposition", "onceward_requests_total", byTenantAction), "{{disposition}}"}},
		},
		{
			title: "Duplicates by cause", look: stacked, width: 8, unit: "reqps",
			about:   "Duplicates that were answered from the ledger, by what made the caller ask again (docs/statistics.md).",
			queries: []query{{rate("cause", "onceward_duplicates_total", byTenantAction), "{{cause}}"}},
		},
		{
			title: "Refusals by reason", look: stacked, width: 8, unit: "reqps",
			about:   "Requests that were refused before anything was sent, by the reason in the error.",
			queries: []query{{rate("reason", "onceward_refusals_total", byTenantAction), "{{reason}}"}},
		},
		{
			title: "Time of RequestAction", look: lines, width: 8, unit: "s",
			about: "How long callers wait for their answer, the provider and the wait that they asked for included.",
			queries: []query{
				{quantile(0.5, "", "onceward_request_duration_seconds", ""), "half"},
				{quantile(0.95, "", "onceward_request_duration_seconds", ""), "95 %"},
				{quantile(0.99, "", "onceward_request_duration_seconds", ""), "99 %"},
			},
		},
		{
			title: "Same key, other arguments", look: lines, width: 8, unit: "reqps",
			about:   "Requests that were refused because their key belongs to other arguments. A fault of the caller's keys, or a model that changes its mind between tries.",
			queries: []query{{rate("tenant, action_type", "onceward_key_mismatches_total", byTenantAction), "{{tenant}} {{action_type}}"}},
		},
		{
			title: "Calls without a valid credential", look: stacked, width: 8, unit: "reqps",
			about:   "By why they were refused. A wall of them after a rotation is a key that was not rolled out.",
			queries: []query{{rate("reason", "onceward_unauthenticated_total", ""), "{{reason}}"}},
		},
		{
			title: "Calls by gRPC status", look: stacked, width: 24, unit: "reqps",
			about:   "Every call of every method, by the status that it was answered with. UNAVAILABLE is the ledger or a provider that is away; INTERNAL is a bug.",
			queries: []query{{rate("rpc_response_status_code", "rpc_server_call_duration_seconds_count", ""), "{{rpc_response_status_code}}"}},
		},
	}
}

func providers() []panel {
	return []panel{
		{
			title: "Calls by what they proved", look: stacked, width: 8, unit: "ops",
			about:   "Provider calls by outcome. \"applied\" is a receipt; \"ambiguous\" proves nothing and becomes a doubt; \"rejected\" and \"not_applied\" prove that nothing happened.",
			queries: []query{{rate("outcome", "onceward_attempts_total", byTenantActionProvider), "{{outcome}}"}},
		},
		{
			title: "Share of calls in doubt", look: lines, width: 8, unit: "percentunit", limits: []limit{{0.05, red}},
			about:   "How many calls of a provider prove nothing, those of workers that died included. Above 5 % it is worth a look at the provider's status page.",
			queries: []query{{rate("provider", "onceward_doubts_total", byTenantActionProvider) + " / " + rate("provider", "onceward_attempts_total", byTenantActionProvider), "{{provider}}"}},
		},
		{
			title: "Doubts by reason", look: stacked, width: 8, unit: "ops",
			about:   "Why operations became unknown.",
			queries: []query{{rate("provider, reason", "onceward_doubts_total", byTenantActionProvider), "{{provider}} {{reason}}"}},
		},
		{
			title: "Time of a call, 95 %", look: lines, width: 8, unit: "s",
			about:   "How long provider calls take. What comes near the adapter's time-out will become doubt.",
			queries: []query{{quantile(0.95, "provider", "onceward_attempt_duration_seconds", byProvider), "{{provider}}"}},
		},
		{
			title: "Calls under way", look: lines, width: 8, unit: "short",
			about: "Provider calls under way in each replica, and how many there may be. At the limit, requests are refused with OVERLOADED.",
			queries: []query{
				{`sum by (instance) (onceward_attempts_in_flight)`, "{{instance}}"},
				{`max(onceward_attempts_limit)`, "limit of one replica"},
			},
		},
		{
			title: "Held back", look: lines, width: 8, unit: "ops",
			about: "Attempts that this side put off to spare a provider, and circuits that are open (1 while no call is made).",
			queries: []query{
				{rate("provider, reason", "onceward_held_back_total", byProvider), "{{provider}}: {{reason}}"},
				{`max by (tenant, provider) (onceward_circuit_open{` + byTenantProvider + `})`, "circuit {{tenant}} {{provider}}"},
			},
		},
	}
}

func reconcilers() []panel {
	return []panel{
		{
			title: "Looks at doubts", look: stacked, width: 8, unit: "ops",
			about:   "What the reconciler found when it looked: \"found\" confirms, \"absent\" proves that nothing happened, \"escalated\" goes to a person, \"error\" is tried again.",
			queries: []query{{rate("result", "onceward_reconciliations_total", byTenantActionProvider), "{{result}}"}},
		},
		{
			title: "Time in doubt", look: lines, width: 8, unit: "s",
			about: "How long it takes from doubt to its end, by evidence or by a person.",
			queries: []query{
				{quantile(0.5, "", "onceward_doubt_duration_seconds", byProvider), "half"},
				{quantile(0.95, "", "onceward_doubt_duration_seconds", byProvider), "95 %"},
			},
		},
		{
			title: "Since the last round", look: lines, width: 8, unit: "s", limits: []limit{{120, red}},
			about:   "Time since each replica ended a round of reconciling. As long as one of them stays low, somebody reconciles; a replica without that role has none.",
			queries: []query{{`time() - max by (instance) (onceward_reconciler_last_round_timestamp_seconds > 0)`, "{{instance}}"}},
		},
		{
			title: "Time of a round and of a look-up, 95 %", look: lines, width: 8, unit: "s",
			about: "A round that takes long delays deferred attempts and doubts; look-ups are the provider's share of it.",
			queries: []query{
				{quantile(0.95, "", "onceward_reconciler_round_duration_seconds", ""), "round"},
				{quantile(0.95, "provider", "onceward_lookup_duration_seconds", byProvider), "look-up {{provider}}"},
			},
		},
		{
			title: "Lost workers", look: lines, width: 8, unit: "ops",
			about: "Leases that ran out in mid-attempt, and results that came after somebody else had moved the operation on. Seen when a replica is killed; otherwise processes hang or the ledger is slow.",
			queries: []query{
				{rate("action_type", "onceward_lease_expiries_total", byTenantAction), "lease ran out: {{action_type}}"},
				{rate("action_type", "onceward_overtaken_total", byTenantAction), "came too late: {{action_type}}"},
			},
		},
		{
			title: "Webhooks", look: stacked, width: 8, unit: "ops",
			about:   "What providers sent by themselves. \"unverified\" is a forgery, or a secret that was rotated on one side.",
			queries: []query{{rate("provider, result", "onceward_webhooks_total", byTenantProvider), "{{provider}}: {{result}}"}},
		},
	}
}
