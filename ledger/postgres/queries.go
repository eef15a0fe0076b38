package postgres

import (
	_ "embed"
	"strings"
)

// The statements. Each is used by one method of Store.
var (
	//go:embed sql/operation_columns.sql
	operationColumns string
	//go:embed sql/open.sql
	openText string
	//go:embed sql/open_asked.sql
	openAskedText string
	//go:embed sql/hold.sql
	holdText string
	//go:embed sql/start.sql
	startText string
	//go:embed sql/change.sql
	changeText string
	//go:embed sql/correct.sql
	correctText string
	//go:embed sql/evidence.sql
	evidenceText string
	//go:embed sql/get.sql
	getText string
	//go:embed sql/holders.sql
	holdersText string
	//go:embed sql/change_reviews.sql
	changeReviewsText string
	//go:embed sql/change_reviews_guard.sql
	changeReviewsGuardText string
	//go:embed sql/claim_found.sql
	claimFoundText string
	//go:embed sql/list.sql
	listText string
	//go:embed sql/poll.sql
	pollText string
	//go:embed sql/expire_leases.sql
	expireLeasesText string
	//go:embed sql/due_pending.sql
	duePendingText string
	//go:embed sql/lease_unknown.sql
	leaseUnknownText string
	//go:embed sql/postpone.sql
	postponeText string
	//go:embed sql/expired_reviews.sql
	expiredReviewsText string
	//go:embed sql/lease_watched.sql
	leaseWatchedText string

	//go:embed sql/attempts.sql
	attemptsSQL string
	//go:embed sql/latest_review.sql
	latestReviewSQL string
	//go:embed sql/review.sql
	reviewSQL string
	//go:embed sql/open_reviews.sql
	openReviewsSQL string
	//go:embed sql/arguments.sql
	argumentsSQL string
	//go:embed sql/tombstone.sql
	tombstoneSQL string
	//go:embed sql/end_watch.sql
	endWatchSQL string
	//go:embed sql/bury.sql
	burySQL string
	//go:embed sql/sweep.sql
	sweepSQL string
	//go:embed sql/sweep_counters.sql
	sweepCountersSQL string
	//go:embed sql/sweep_intents.sql
	sweepIntentsSQL string
	//go:embed sql/budget_use.sql
	budgetUseSQL string
	//go:embed sql/intent_holder.sql
	intentHolderSQL string
	//go:embed sql/sweep_due.sql
	sweepDueSQL string
	//go:embed sql/leases_due.sql
	leasesDueSQL string
	//go:embed sql/prepare_audit.sql
	prepareAuditSQL string
	//go:embed sql/audit_partition.sql
	auditPartitionSQL string
	//go:embed sql/audit_partitions.sql
	auditPartitionsSQL string
	//go:embed sql/audit_needed.sql
	auditNeededSQL string
	//go:embed sql/audit_blockers.sql
	auditBlockersSQL string
	//go:embed sql/audit_lines.sql
	auditLinesText string
	//go:embed sql/audit_count.sql
	auditCountText string
	//go:embed sql/audit_hold.sql
	auditHoldText string
	//go:embed sql/audit_drop.sql
	auditDropText string
	//go:embed sql/row_types.sql
	rowTypesSQL string
	//go:embed sql/batch_settings.sql
	batchSettingsSQL string
	//go:embed sql/retire.sql
	retireSQL string

	//go:embed sql/credential.sql
	credentialSQL string
	//go:embed sql/credentials.sql
	credentialsSQL string
	//go:embed sql/create_tenant.sql
	createTenantSQL string
	//go:embed sql/set_tenant_active.sql
	setTenantActiveSQL string
	//go:embed sql/tenants.sql
	tenantsSQL string
	//go:embed sql/add_credential.sql
	addCredentialSQL string
	//go:embed sql/tenant_active.sql
	tenantActiveSQL string
	//go:embed sql/use_token.sql
	useTokenSQL string
	//go:embed sql/rotate_credential.sql
	rotateCredentialSQL string
	//go:embed sql/revoke_credential.sql
	revokeCredentialSQL string
	//go:embed sql/remember_installation.sql
	rememberInstallationSQL string
	//go:embed sql/check_installation.sql
	checkInstallationSQL string
	//go:embed sql/may_change_record.sql
	mayChangeRecordSQL string
	//go:embed sql/durability.sql
	durabilitySQL string
	//go:embed sql/standbys.sql
	standbysSQL string
)

// The statements that return operations, with the column list filled in.
var (
	startSQL          = withColumns(startText)
	correctSQL        = withColumns(correctText)
	evidenceSQL       = withColumns(evidenceText)
	getSQL            = withColumns(getText)
	listSQL           = withColumns(listText)
	pollSQL           = withColumns(pollText)
	claimFoundSQL     = withColumns(claimFoundText)
	expireLeasesSQL   = withColumns(expireLeasesText)
	duePendingSQL     = withColumns(duePendingText)
	leaseUnknownSQL   = withColumns(leaseUnknownText)
	postponeSQL       = withColumns(postponeText)
	expiredReviewsSQL = withColumns(expiredReviewsText)
	leaseWatchedSQL   = withColumns(leaseWatchedText)
)

// The statements of batches. A move is the same statement whether reviews belong to
// it or not; without them it has nothing to look at there. openSQL records what asks
// nobody and is in no doubt, and nothing else; openAskingSQL records everything.
var (
	openSQL          = prepare(strings.NewReplacer("/* asked */", "", "/* and asked */", "", "/* lost from */", "", "/* lost until */", "").Replace(openText))
	openAskingSQL    = prepare(strings.NewReplacer("/* asked */", openAskedText, "/* and asked */", ", 'needs_review', 'unknown'", "/* lost from */", lostFrom, "/* lost until */", lostUntil).Replace(openText))
	holdSQL          = prepare(holdText)
	holdersSQL       = prepare(withColumns(holdersText))
	changeSQL        = prepare(moveOnlyText)
	changeReviewsSQL = prepare(moveAndReviewText)

	moveOnlyText      = withColumns(strings.NewReplacer("/* reviews guard */", "", "/* reviews returned */", "", "/* reviews */", "").Replace(changeText))
	moveAndReviewText = withColumns(strings.NewReplacer("/* reviews guard */", changeReviewsGuardText, "/* reviews returned */", changeReviewsReturned, "/* reviews */", changeReviewsText).Replace(changeText))
)

// When what is new in a restored ledger may have been sent before.
const (
	lostFrom  = "WHEN 'unknown' THEN (SELECT min(lost_from) FROM restores_in_force(n.tenant_id, n.action_type))"
	lostUntil = "WHEN 'unknown' THEN (SELECT max(lost_until) FROM restores_in_force(n.tenant_id, n.action_type))"
)

// changeReviewsReturned is what the statements about reviews need of a change.
const changeReviewsReturned = ", n.review_id, n.review_reason, n.review_detail, n.review_expires_us, n.decision, n.decided_by, n.note, n.required_approvals, n.policy_version"

// withColumns puts the one list of operation columns where the statement asks
// for it, so that every statement returns what scanOperation reads.
func withColumns(sql string) string {
	return strings.ReplaceAll(sql, "/* operation columns */", operationColumns)
}
