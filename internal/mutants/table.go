package mutants

// inTheTable are faults in the state machine itself.
func inTheTable() []Mutant {
	return []Mutant{
		{
			Name: "a lease that runs out leads to another try", Law: "L4",
			Edits: []Edit{{"ledger/moves.go", "{Running, Doubt, Unknown},", "{Running, Doubt, Pending},"}},
			// The model's rows know no other table.
			Package: "internal/model", Run: "^TestEveryWorld$/^neither$",
		},
		{
			Name: "what succeeded can be escalated", Law: "L6",
			Edits:   []Edit{{"ledger/moves.go", "\t{Unknown, Confirm, Succeeded},", "\t{Unknown, Confirm, Succeeded},\n\t{Succeeded, Escalate, NeedsReview},"}},
			Package: "ledger", Run: "^TestNextDecidesEveryStateAndEvent$",
		},
		{
			Name: "doubt can be claimed like a new attempt", Law: "L4",
			Edits:   []Edit{{"ledger/moves.go", "\t{Unknown, Confirm, Succeeded},", "\t{Unknown, Claim, Running},\n\t{Unknown, Confirm, Succeeded},"}},
			Package: "ledger", Run: "^TestLaw04_NoMoveTurnsDoubtIntoATryWithoutProof$",
		},
	}
}

// inStatements are faults in the guarded statements and what calls them.
func inStatements() []Mutant {
	const sql = "ledger/postgres/sql/"
	return []Mutant{
		{
			Name: "a lease that runs out goes back to pending, in SQL", Law: "L4",
			Edits: []Edit{{
				sql + "expire_leases.sql",
				"status = 'unknown', last_event = 'doubt', effect = 'unknown', reason = 'lease_expired', in_doubt = true,",
				"status = 'pending', last_event = 'defer', effect = 'not_applied', reason = 'lease_expired', in_doubt = false,",
			}},
			Package: "ledger/postgres", Run: "^TestExpireLeases$",
		},
		{
			Name: "the fence of an attempt is dropped when one starts", Law: "L7",
			Edits:   []Edit{{sql + "start.sql", "AND o.status = @from AND o.attempt = @attempt AND o.epoch = @epoch", "AND o.status = @from AND o.attempt >= @attempt AND o.epoch = @epoch"}},
			Package: "ledger/postgres", Run: "^TestLaw07_WhatLooksAsItDid$",
		},
		{
			Name: "the epoch's fence is dropped when an attempt starts", Law: "L1",
			Edits:   []Edit{{sql + "start.sql", "AND o.attempt = @attempt AND o.epoch = @epoch", "AND o.attempt = @attempt AND o.epoch >= @epoch"}},
			Package: "ledger/postgres", Run: "^TestLaw07_WhatLooksAsItDid$",
		},
		{
			Name: "the key horizon is not checked when a replay starts", Law: "L1",
			Edits:   []Edit{{sql + "start.sql", "AND o.key_horizon > t.now + @lease_us::bigint * interval '1 microsecond'", "AND o.key_horizon IS NOT NULL"}},
			Package: "ledger/postgres", Run: "^TestStartIsFenced$",
		},
		{
			Name: "another request than the frozen one is sent", Law: "L1",
			Edits:   []Edit{{sql + "start.sql", "AND (o.request_hash IS NULL OR o.request_hash = @request_hash)", "AND @request_hash IS NOT NULL"}},
			Package: "ledger/postgres", Run: "^TestStartIsFenced$",
		},
		{
			Name: "the fence of an attempt is dropped when it is settled", Law: "L7",
			Edits:   []Edit{{sql + "change.sql", "o.status = n.from_status AND o.attempt = n.attempt AND o.epoch = n.epoch", "o.status = n.from_status AND o.epoch = n.epoch"}},
			Package: "ledger/postgres", Run: "^TestLaw07_StaleChangesAreFenced$",
		},
		{
			Name: "a reconciler whose lease is over still settles", Law: "L7",
			Edits:   []Edit{{sql + "change.sql", "AND (n.lease < 0 OR o.lease = n.lease)", "AND (n.lease < 0 OR o.lease >= n.lease)"}},
			Package: "ledger/postgres", Run: "^TestLaw07_OneReconcilerSettles$",
		},
		{
			Name: "a second receipt overwrites the first", Law: "L6",
			Edits:   []Edit{{sql + "change.sql", "AND (n.from_status = 'needs_review' OR n.reference = ''", "AND (n.from_status <> '' OR n.reference = ''"}},
			Package: "ledger/postgres", Run: "^TestSecondReferenceNeverOverwritesTheFirst$",
		},
		{
			Name: "a proof of absence need not know of the doubt", Law: "L3",
			Edits:   []Edit{{sql + "change.sql", "OR o.in_doubt = n.knew_doubt AND coalesce", "OR coalesce"}},
			Package: "ledger/postgres", Run: "^TestLaw03_DoubtWithoutAReceiptOutweighsAbsence$",
		},
		{
			Name: "one kind of move is left out of the record", Law: "L11",
			Edits:   []Edit{{sql + "change.sql", "nullif(reference, ''), audit_chain FROM moved", "nullif(reference, ''), audit_chain FROM moved WHERE last_event <> 'defer'"}},
			Package: "ledger/postgres", Run: "^TestLaw11_EveryEventIsChained$",
		},
		{
			Name: "evidence is recorded whatever the operation is now", Law: "L7",
			Edits:   []Edit{{sql + "evidence.sql", "AND o.status = @from AND o.attempt = @current", "AND o.status IS NOT NULL AND @from::text IS NOT NULL AND @current::int IS NOT NULL"}},
			Package: "ledger/postgres", Run: "^TestLaw07_EvidenceIsFenced$",
		},
		{
			Name: "a doubt is leased while another reconciler has it", Law: "L7",
			Edits:   []Edit{{sql + "lease_unknown.sql", "AND (lease_expires_at IS NULL OR lease_expires_at <= clock_timestamp())", ""}},
			Package: "ledger/postgres", Run: "^TestLeaseUnknownSharesTheWork$",
		},
		{
			Name: "whoever had the lease puts the doubt off", Law: "L7",
			Edits:   []Edit{{sql + "postpone.sql", "AND o.attempt = @attempt AND o.lease = @lease", "AND o.attempt = @attempt AND o.lease >= @lease"}},
			Package: "ledger/postgres", Run: "^TestLaw07_WhatLooksAsItDid$",
		},
		{
			Name: "what may have been applied is corrected", Law: "L5",
			Edits:   []Edit{{sql + "correct.sql", "AND o.effect = 'not_applied' AND", "AND o.effect <> '' AND"}},
			Package: "ledger/postgres", Run: "^TestCorrect$",
		},
		{
			Name: "unresolved rows are swept", Law: "L8",
			Edits: []Edit{
				{sql + "bury.sql", "coalesce(o.window_ends_at <= clock_timestamp() AND o.watch_until IS NULL, false) AS past", "true AS past"},
				{sql + "sweep.sql", "AND o.window_ends_at <= statement_timestamp() AND o.watch_until IS NULL", ""},
			},
			Package: "ledger/postgres", Run: "^TestLaw08_UnfinishedOperationsAreNeverSwept$",
		},
		{
			Name: "what open operations hold leaves with the window", Law: "L8",
			Edits:   []Edit{{"migrations/000004_holds.up.sql", "SELECT array_agg(x.held + coalesce((SELECT sum(b.amount)", "SELECT array_agg(coalesce((SELECT sum(b.amount)"}},
			Package: "ledger/postgres", Run: "^TestLaw08_OpenOperationsCountInEveryWindow$",
		},
		{
			Name: "a review is decided twice", Law: "L7",
			Edits: []Edit{{
				sql + "change_reviews_guard.sql",
				"WHERE r.tenant_id = n.tenant_id AND r.id = n.decided_review AND r.operation_id = n.id AND r.decision IS NULL OFFSET 0))",
				"WHERE r.tenant_id = n.tenant_id AND r.id = n.decided_review AND r.operation_id = n.id OFFSET 0))",
			}},
			Package: "ledger/postgres", Run: "^TestLaw07_WhatLooksAsItDid$",
		},
		{
			Name: "one yes is enough where several must approve", Law: "L12",
			Edits:   []Edit{{sql + "change_reviews_guard.sql", "AND (r.required_approvals = 1 OR r.approved_at IS NOT NULL) OFFSET 0))", "OFFSET 0))"}},
			Package: "ledger/postgres", Run: "^TestSeveralMustApprove$",
		},
		{
			Name: "the arguments hash is not compared on conflict", Law: "L5",
			Edits:   []Edit{{"ledger/postgres/open.go", "h.op.ActionType != o.Operation.ActionType || h.op.ArgsHash != o.Operation.ArgsHash", "h.op.ActionType != o.Operation.ActionType"}},
			Package: "ledger/postgres", Run: "^TestLaw05_StoreRefusesOtherArgumentsInEveryState$",
		},
		{
			Name: "a new key is claimed in a restored ledger", Law: "L2",
			Edits: []Edit{{
				sql + "open.sql",
				"AND (n.status = 'unknown') = (EXISTS (SELECT FROM lost) AND EXISTS (SELECT FROM restores_in_force(n.tenant_id, n.action_type)))",
				"AND (n.status <> 'unknown' OR EXISTS (SELECT FROM lost))",
			}},
			Package: "ledger/postgres", Run: "^TestLaw02_RestoredLedgerClaimsNothing$",
		},
		{
			Name: "what was about to be sent is not in doubt after a restore", Law: "L4",
			Edits:   []Edit{{sql + "restore_doubt.sql", "o.status IN ('pending', 'running', 'unknown', 'needs_review')", "o.status IN ('running', 'unknown', 'needs_review')"}},
			Package: "ledger/postgres", Run: "^TestLaw04_RestoreDoubtsWhatIsOpen$",
		},
		{
			Name: "what is learned of an old failure lets it be corrected in a restored ledger", Law: "L1",
			Edits:   []Edit{{sql + "correct.sql", "r WHERE o.window_ends_at - o.retention <= r.begun_at", "r WHERE o.updated_at <= r.begun_at"}},
			Package: "ledger/postgres", Run: "^TestRestoredLedgerTakesNoOldCorrections$",
		},
		{
			Name: "an operation is read by its id alone", Law: "L10",
			Edits:   []Edit{{sql + "get.sql", "WHERE e.tenant_id = @tenant AND", "WHERE @tenant::text IS NOT NULL AND"}},
			Package: "ledger/postgres", Run: "^TestLaw10_",
		},
	}
}

// inVerdicts are faults in what is made of an answer.
func inVerdicts() []Mutant {
	const verdict = "dispatch/verdict.go"
	return []Mutant{
		{
			Name: "a late worker settles for a newer attempt", Law: "L7",
			Edits:   []Edit{{verdict, "if cur.State == ledger.Running && cur.Attempt == attempt {", "if cur.State == ledger.Running {"}},
			Package: "internal/model", Run: "^TestEveryWorld$/^keys$",
		},
		{
			Name: "a time-out is a failure", Law: "L3",
			Edits: []Edit{{
				verdict, "\tdefault: // Ambiguous, and whatever an adapter makes up\n",
				"\tcase actions.Ambiguous:\n\t\tc.Event, c.Effect, c.Failure = ledger.Refuse, ledger.EffectNotApplied, failure(o)\n\t\treturn verdict{change: &c}\n\tdefault: // whatever an adapter makes up\n",
			}},
			Package: "internal/model", Run: "^TestEveryWorld$/^neither$",
		},
		{
			Name: "a refusal after doubt closes the operation", Law: "L3",
			Edits: []Edit{{
				verdict, "\t\tif cur.InDoubt {\n\t\t\t// It refuses this attempt",
				"\t\tif cur.InDoubt && cur.Attempt == 1 {\n\t\t\t// It refuses this attempt",
			}},
			Package: "internal/model", Run: "^TestEveryWorld$/^keys$",
		},
		{
			Name: "the doubt of an earlier attempt is forgotten", Law: "L3",
			Edits:   []Edit{{"ledger/postgres/change.go", "return c.InDoubt || moveTo(c) == ledger.Unknown", "return c.InDoubt && moveTo(c) == ledger.Unknown"}},
			Package: "ledger/postgres", Run: "^TestLaw03_DoubtIsKept$",
		},
		{
			Name: "the key's epoch grows without proof", Law: "L1",
			Edits:   []Edit{{verdict, "\t\tc.Delay = doubtDelay(cur.Attempt, o)\n\t\treturn verdict{change: &c}", "\t\tc.Delay, c.BumpEpoch = doubtDelay(cur.Attempt, o), true\n\t\treturn verdict{change: &c}"}},
			Package: "internal/model", Run: "^TestEveryWorld$/^keys$",
		},
		{
			Name: "a success that is cut short is tried again", Law: "L1",
			Edits:   []Edit{{verdict, "reason, effect := ReasonAppliedNoReceipt, ledger.EffectApplied", "reason, effect := ReasonAmbiguous, ledger.EffectUnknown"}},
			Package: "dispatch", Run: "^TestSettle$",
		},
		{
			Name: "a receipt for what was called failed is dropped", Law: "L3",
			Edits:   []Edit{{verdict, "\tcase ledger.Failed:\n\t\tc.Event, c.Reason, c.InDoubt = ledger.Contradict", "\tcase ledger.New:\n\t\tc.Event, c.Reason, c.InDoubt = ledger.Contradict"}},
			Package: "dispatch", Run: "^TestLateReceipt$",
		},
	}
}

// inRepairs are faults in the reconciler.
func inRepairs() []Mutant {
	const plan = "reconciler/plan.go"
	return []Mutant{
		{
			Name: "absence is believed before the settle time", Law: "L3",
			Edits:   []Edit{{plan, "unsettled := op.DoubtedAt.Add(rules.SettleTime).Sub(now); unsettled > 0", "unsettled := op.DoubtedAt.Add(rules.SettleTime).Sub(now); unsettled > rules.SettleTime"}},
			Package: "internal/model", Run: "^TestEveryWorld$/^look-up",
		},
		{
			Name: "absence is believed after a restore", Law: "L4",
			Edits:   []Edit{{plan, "return absence{proved: !restored, ask: restored, negativeReads: reads}", "return absence{proved: true, negativeReads: reads}"}},
			Package: "reconciler", Run: "^TestOnlyAFindEndsARestoredDoubt$",
		},
		{
			Name: "a restored doubt is replayed", Law: "L4",
			Edits:   []Edit{{plan, "\tif op.Reason == ledger.ReasonRestored {", "\tif op.Reason == ledger.ReasonRestored && op.Attempt == 0 {"}},
			Package: "internal/model", Run: "^TestEveryWorld$/^restored$",
		},
		{
			Name: "absence is believed after one read", Law: "L3",
			Edits:   []Edit{{plan, "if reads < rules.NegativeReads {", "if reads < 1 {"}},
			Package: "reconciler", Run: "^TestWeighAbsence$",
		},
		{
			Name: "a replay is planned past the horizon", Law: "L1",
			Edits:   []Edit{{plan, "dispatch.Tries(op) < dispatch.MaxAttempts(op, spec) && arrives.Before(op.KeyHorizon)", "dispatch.Tries(op) < dispatch.MaxAttempts(op, spec)"}},
			Package: "reconciler", Run: "^TestNextStep$",
		},
		{
			Name: "the same request goes again to a provider that knows no keys", Law: "L1",
			Edits:   []Edit{{plan, "return spec.Contract.Keys.Honoured && op.Effect", "return op.Effect"}, {plan, "&& arrives.Before(op.KeyHorizon)", "&& (op.KeyHorizon.IsZero() || arrives.Before(op.KeyHorizon))"}},
			Package: "reconciler", Run: "^TestNextStep$",
		},
		{
			Name: "a look-up that found nothing closes what the provider took up", Law: "L3",
			Edits:   []Edit{{plan, `op.ProviderReference != "" || op.Reason == dispatch.ReasonAwaitingProvider {`, `op.Reason == "" {`}},
			Package: "reconciler", Run: "^TestWeighAbsence$",
		},
		{
			Name: "the end of one attempt's work is taken for the end of all", Law: "L3",
			Edits:   []Edit{{"dispatch/tries.go", "case makers(cur) <= 1:", "case makers(cur) <= 2:"}},
			Package: "dispatch", Run: "^TestEndsAll$",
		},
	}
}

// inAnswers are faults in what callers get.
func inAnswers() []Mutant {
	const replays = "server/replays.go"
	return []Mutant{
		{
			Name: "a replay from memory is served across tenants", Law: "L10",
			Edits: []Edit{
				{replays, "e, ok := r.byKey[replayKey{op.Tenant, op.Key}]", `e, ok := r.byKey[replayKey{"", op.Key}]`},
				{replays, "e, ok := r.byKey[replayKey{tenant, key}]", `e, ok := r.byKey[replayKey{tenant[:0], key}]`},
				{replays, "known, ok := r.byKey[replayKey{op.Tenant, op.Key}]", `known, ok := r.byKey[replayKey{"", op.Key}]`},
				{replays, "r.byKey[replayKey{op.Tenant, op.Key}] = e", `r.byKey[replayKey{"", op.Key}] = e`},
			},
			Package: "server", Run: "^TestLaw10_TenantsDoNotShareReplays$",
		},
	}
}
