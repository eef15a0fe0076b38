package providers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/sqlaction"
)

// sqlLink is a Postgres that actions write to; the ledger's own where database
// is nil.
type sqlLink struct {
	p        *definition.Provider
	database *sqlaction.Database
}

func (p *Providers) newSQL(provider *definition.Provider) (link, error) {
	if provider.SQL.Ledger {
		return sqlLink{p: provider}, nil
	}
	database, err := sqlaction.NewDatabase(sqlaction.DatabaseOptions{
		ConnString:  func(context.Context) (string, error) { return p.Declared.Secret(*provider.SQL.URL, "") },
		Table:       provider.SQL.OperationsTable,
		CreateTable: provider.SQL.CreateTable,
		MaxConns:    provider.SQL.MaxConns,
		PlainText:   provider.SQL.PlainText,
	})
	if err != nil {
		return nil, err
	}
	return sqlLink{provider, database}, nil
}

func (l sqlLink) adapter(a *definition.Action) (actions.Adapter, error) {
	return declared.SQL(l.p, a, l.database)
}

// described asks the database whether its table and the statements can do their
// work: at the start, and not at the first action.
func (l sqlLink) described(ctx context.Context) ([]actions.Adapter, error) {
	if l.database == nil {
		return nil, nil
	}
	return nil, l.database.Check(ctx)
}

func (l sqlLink) close() {
	if l.database != nil {
		l.database.Close()
	}
}

// mailLink is a mail server. Each mail has a connection of its own.
type mailLink struct {
	p *definition.Provider
	o declared.Options
}

func (l *mailLink) adapter(a *definition.Action) (actions.Adapter, error) {
	return declared.Mail(l.p, a, l.o)
}

func (*mailLink) described(context.Context) ([]actions.Adapter, error) { return nil, nil }

func (*mailLink) close() {}

// checkStatements has the databases parse the statements of new adapters.
func (p *Providers) checkStatements(ctx context.Context, next loaded) error {
	ctx, cancel := context.WithTimeout(ctx, p.StartTimeout)
	defer cancel()
	var errs []error
	for _, actionType := range slices.Sorted(maps.Keys(next.adapters)) {
		remote, ok := next.adapters[actionType].(*sqlaction.Remote)
		if !ok || next.adapters[actionType] == p.loaded.adapters[actionType] {
			continue
		}
		if err := remote.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: statement: %w", next.set.Place(next.set.Actions[actionType].Place.File, "statement.sql"), err))
		}
	}
	return errors.Join(errs...)
}
