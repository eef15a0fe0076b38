package postgres

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// noteSQL writes an event that is about no operation. It is used by Deny and by
// what sets and clears kill switches.
//
//go:embed sql/note.sql
var noteSQL string

// deny is the event of a refused request.
const deny = "deny"

// Bytes of what a refused request says of itself, which nobody has checked.
const (
	maxDeniedText   = 255
	maxDeniedDetail = 1000
)

// Deny records a request that was refused, under the id that its operation would
// have had. To do it again is harmless. Texts of the request that are longer than
// any that is accepted are cut.
//
// It shares transactions as all writes do, and fails with ledger.ErrOverloaded
// when too many wait: those who are refused must not hold up those who are not.
func (s *Store) Deny(ctx context.Context, d ledger.Denial) error {
	if s.alterations.full() {
		s.observer.Overloaded(ledger.Alterations)
		return ledger.ErrOverloaded
	}
	c := ledger.EventContext{
		ActionType: cut(d.ActionType, maxDeniedText), Run: cutRun(d.Run),
		Decision: d.Decision, Reason: d.Reason, Rule: d.Rule, PolicyVersion: d.PolicyVersion,
		Stage: d.Stage, Amount: cut(d.Amount, maxDeniedText), Currency: cut(d.Currency, maxDeniedText),
	}
	w := &write{tenant: d.Tenant, statement: noteSQL, args: noteArgs(d.Tenant, d.ID, deny, d.Actor, cut(d.Detail, maxDeniedDetail), d.ArgsHash, contextJSON(c, d.Key))}
	return errors.Join(s.alterations.do(ctx, w), w.err)
}

// noteArgs are the arguments of note.sql.
func noteArgs(tenant, id, event, actor, detail string, argsHash *ledger.Hash, context string) pgx.NamedArgs {
	hash := []byte{} // nothing is known of arguments
	if argsHash != nil {
		hash = argsHash[:]
	}
	return pgx.NamedArgs{
		"tenant": tenant, "id": uuidOf(id), "event": event, "args_hash": hash,
		"actor": ledger.StorableText(actor), "detail": ledger.StorableText(detail), "context": context,
	}
}

// cut is the beginning of a text that fits into so many bytes and that the database
// can read again: a NUL in JSON is stored, and refused to everybody who looks into it.
func cut(text string, most int) string {
	return ledger.StorableText(text[:min(len(text), most)])
}

func cutRun(r ledger.Run) ledger.Run {
	for _, text := range []*string{&r.RunID, &r.StepID, &r.ToolCallID, &r.ToolVersion, &r.Agent, &r.Instance} {
		*text = cut(*text, maxDeniedText)
	}
	return r
}
