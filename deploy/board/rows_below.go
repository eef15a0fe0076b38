package board

func ledger() []panel {
	return []panel{
		{
			title: "Does the ledger answer?", look: lines, width: 8, unit: "short",
			about:   "1 for each replica whose last look at Postgres was answered.",
			queries: []query{{`min by (instance) (onceward_ledger_up)`, "{{instance}}"}},
		},
		{
			title: "Rows in a transaction", look: lines, width: 8, unit: "short",
			about:   "How many operations share a transaction, on average. It grows with load, and that is how the ledger keeps up.",
			queries: []query{{mean("lane", "onceward_ledger_batch_rows"), "{{lane}}"}},
		},
		{
			title: "Time of a transaction, 95 %", look: lines, width: 8, unit: "s",
			about:   "How long a shared transaction takes, its commit included. Every request waits for two of them.",
			queries: []query{{quantile(0.95, "lane", "onceward_ledger_batch_duration_seconds", ""), "{{lane}}"}},
		},
		{
			title: "Waiting and refused", look: lines, width: 8, unit: "short",
			about: "Rows that wait for a transaction, and rows a second that were refused because too many wait.",
			queries: []query{
				{`sum by (lane) (onceward_ledger_waiting)`, "waiting: {{lane}}"},
				{rate("lane", "onceward_ledger_overloaded_total", ""), "refused a second: {{lane}}"},
			},
		},
		{
			title: "Lost answers", look: lines, width: 8, unit: "ops",
			about: "Statements that the ledger did not answer, and commits whose answer was lost, by what the look afterwards found. A failover shows here.",
			queries: []query{
				{total("onceward_ledger_errors_total", "") + zeroIfScraped, "statements"},
				{rate("result", "onceward_ledger_ambiguous_commits_total", ""), "commit: {{result}}"},
			},
		},
		{
			title: "Connections", look: lines, width: 8, unit: "short",
			about:   "Connections to Postgres of all replicas, and how many they may open.",
			queries: []query{{`sum by (state) (onceward_ledger_connections)`, "{{state}}"}},
		},
	}
}

func budgets() []panel {
	return []panel{
		{
			title: "Refused by a budget", look: lines, width: 8, unit: "reqps",
			about:   "Requests over a budget, by tenant and budget. Doubts hold what they reserved until they end.",
			queries: []query{{rate("tenant, budget", "onceward_budget_refusals_total", byTenant), "{{tenant}} {{budget}}"}},
		},
		{
			title: "Refused by an open intent", look: lines, width: 8, unit: "reqps",
			about:   "Requests for something that another operation is already doing under another key.",
			queries: []query{{rate("action_type", "onceward_intent_refusals_total", byTenantAction), "{{action_type}}"}},
		},
		{
			title: "Waiting for a person, by why", look: lines, width: 8, unit: "short",
			about:   "Reviews that are open in the ledger. One that is contradicted may be a second effect: look at it at once. onceward reviews",
			queries: []query{{`max by (reason) (onceward_open_reviews)`, "{{reason}}"}},
		},
		{
			title: "Reviews opened and decided", look: lines, width: 8, unit: "ops",
			about: "Decisions that were asked of people, by why, and how they ended.",
			queries: []query{
				{rate("reason", "onceward_reviews_opened_total", byTenantAction), "opened: {{reason}}"},
				{rate("decision", "onceward_reviews_decided_total", byTenantAction), "decided: {{decision}}"},
			},
		},
		{
			title: "Kill switches", look: lines, width: 8, unit: "short",
			about:   "Stops that are set, by what they stop. See them with: onceward stops",
			queries: []query{{`max by (scope) (onceward_kill_switches)`, "{{scope}}"}},
		},
		{
			title: "Recovery of a restored ledger", look: lines, width: 8, unit: "short",
			about:   "Restores that nobody has ended: above 0 new operations are recorded in doubt and not sent. How far it is: onceward restore status",
			queries: []query{{`max(onceward_restores)`, "in force"}},
		},
		{
			title: "Refused files", look: lines, width: 8, unit: "short",
			about:   "1 while a replica refuses changed definitions or policies and goes on with the former ones. It would not start with the new ones.",
			queries: []query{{`max by (instance, kind) (onceward_reload_failures)`, "{{instance}} {{kind}}"}},
		},
	}
}

func processes() []panel {
	return []panel{
		{
			title: "Replicas by version", look: stacked, width: 8, unit: "short",
			about: "Replicas that are scraped, by version; two versions are a rollout. What is down is not scraped.",
			queries: []query{
				{`count by (version) (onceward_build_info)`, "{{version}}"},
				{`count(up{job="onceward"} == 0)`, "DOWN"},
			},
		},
		{
			title: "Processor", look: lines, width: 8, unit: "short",
			about:   "Cores that each replica uses.",
			queries: []query{{`rate(process_cpu_seconds_total{job="onceward"}[$__rate_interval])`, "{{instance}}"}},
		},
		{
			title: "Memory", look: lines, width: 8, unit: "bytes",
			about:   "Resident memory of each replica. The soft limit is 512 MiB unless GOMEMLIMIT says otherwise.",
			queries: []query{{`process_resident_memory_bytes{job="onceward"}`, "{{instance}}"}},
		},
		{
			title: "Goroutines", look: lines, width: 8, unit: "short",
			about:   "A line that only climbs is a leak.",
			queries: []query{{`go_goroutines{job="onceward"}`, "{{instance}}"}},
		},
		{
			title: "Open files", look: lines, width: 8, unit: "short",
			about: "File descriptors of each replica, and how many it may have.",
			queries: []query{
				{`process_open_fds{job="onceward"}`, "{{instance}}"},
				{`min(process_max_fds{job="onceward"})`, "limit"},
			},
		},
		{
			title: "Restarts", look: lines, width: 8, unit: "s",
			about:   "How long each replica has been up. A saw is a process that dies again and again.",
			queries: []query{{`time() - process_start_time_seconds{job="onceward"}`, "{{instance}}"}},
		},
	}
}
