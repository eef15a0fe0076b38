package postgres

import (
	"context"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// statement is a statement that is sent often: pgx would look for the @names in
// its text each time.
type statement struct {
	sql   string   // with $1, $2...
	names []string // of $1, $2...
}

var atName = regexp.MustCompile(`@[a-z_]+`)

func prepare(text string) statement {
	names := pgx.NamedArgs{}
	for _, at := range atName.FindAllString(text, -1) {
		names[at[1:]] = at[1:]
	}
	// The names are their own values, so that they come back in order. Only
	// strict rewriters fail.
	sql, ordered, _ := names.RewriteQuery(context.Background(), nil, text, nil)
	s := statement{sql: sql, names: make([]string, len(ordered))}
	for i, name := range ordered {
		s.names[i], _ = name.(string)
	}
	return s
}

// args puts arguments into order.
func (s statement) args(named pgx.NamedArgs) []any {
	ordered := make([]any, len(s.names))
	for i, name := range s.names {
		ordered[i] = named[name]
	}
	return ordered
}

// queue adds the statement to a batch; read takes its rows when they come.
func (s statement) queue(b *pgx.Batch, named pgx.NamedArgs, read func(pgx.Rows) error) {
	b.Queue(s.sql, s.args(named)...).Query(read)
}
