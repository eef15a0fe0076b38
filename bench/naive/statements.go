package naive

import _ "embed" // the statements are files

var (
	//go:embed sql/claim_operation.sql
	claimOperationSQL string
	//go:embed sql/claim_lease.sql
	claimLeaseSQL string
	//go:embed sql/claim_audit.sql
	claimAuditSQL string
	//go:embed sql/settle_read.sql
	settleReadSQL string
	//go:embed sql/settle_operation.sql
	settleOperationSQL string
	//go:embed sql/settle_audit.sql
	settleAuditSQL string
	//go:embed sql/single_claim.sql
	singleClaimSQL string
	//go:embed sql/single_settle.sql
	singleSettleSQL string
)

// SingleStatements are the texts of [Single], with numbered parameters, for who
// runs them without Go. The claim's are those of claimArgs, then the lease's id;
// the settlement's those of settleArgs.
func SingleStatements() (claim, settle string) { return singleClaimSQL, singleSettleSQL }
