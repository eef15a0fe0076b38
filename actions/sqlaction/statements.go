package sqlaction

import (
	"strings"

	_ "embed"
)

//go:embed sql/table.sql
var tableSQL string

//go:embed sql/inspect.sql
var inspectSQL string

//go:embed sql/settings.sql
var settingsSQL string

//go:embed sql/lock.sql
var lockSQL string

//go:embed sql/probe.sql
var probeSQL string

//go:embed sql/find.sql
var findSQL string

//go:embed sql/record.sql
var recordSQL string

// statements are those of a Database, with the name of its table in them.
type statements struct {
	table, inspect, settings, lock, probe, find, record string
}

// statementsFor puts in the table's name, which was checked to need no quotes.
func statementsFor(table string) statements {
	named := func(sql string) string { return strings.ReplaceAll(sql, "{table}", table) }
	return statements{
		table: named(tableSQL), inspect: inspectSQL, settings: settingsSQL, lock: lockSQL, probe: probeSQL,
		find: named(findSQL), record: named(recordSQL),
	}
}
