package guardsql

import _ "embed"

// Schema is the SQL that makes the table, if it is not there.
func Schema() string { return schemaSQL }

var (
	//go:embed sql/schema.sql
	schemaSQL string
	//go:embed sql/begin.sql
	beginSQL string
	//go:embed sql/find.sql
	findSQL string
	//go:embed sql/finish.sql
	finishSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/doubt.sql
	doubtSQL string
	//go:embed sql/forget.sql
	forgetSQL string
	//go:embed sql/lock.sql
	lockSQL string
	//go:embed sql/unresolved.sql
	unresolvedSQL string
	//go:embed sql/resolve_performed.sql
	resolvePerformedSQL string
	//go:embed sql/resolve_free.sql
	resolveFreeSQL string
)
