package sqlaction

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/actions"
)

// The texts of these outcomes hold SQLSTATEs and the names of constraints: what
// the server says beside them repeats values.

func ambiguous(evidence string) actions.Outcome {
	return actions.Outcome{Failure: actions.Failure{
		Code: "commit_unknown", Message: "Whether the database has committed the write is not known.", Evidence: evidence}}
}

func notApplied(code, message, evidence string) actions.Outcome {
	return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{Code: code, Message: message, Evidence: evidence}}
}

func rejected(code, message, evidence string, correctable bool) actions.Outcome {
	return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
		Code: code, Message: message, Evidence: evidence, Correctable: correctable}}
}

// notConnected is for an attempt that got no connection.
func notConnected(err error) actions.Outcome {
	o := notApplied("not_connected", "The database could not be used.", evidence("connect", err)+"; no transaction was begun")
	var pg *pgconn.PgError
	o.Unreached = !errors.As(err, &pg) && !errors.Is(err, ErrClosed) // nobody answered
	return o
}

// notCommitted is for a transaction whose COMMIT was not sent: it can no longer
// be committed.
func notCommitted(stage string, err error) actions.Outcome {
	return notApplied("not_committed", "The database did not take the write.", evidence(stage, err)+"; COMMIT was not sent")
}

// notRun is for the declared statement, whose COMMIT was not sent either: what
// is to be decided is whether trying again can help, and who can help.
func notRun(tx pgx.Tx, err error) actions.Outcome {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if tx.Conn().IsClosed() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return notCommitted("statement", err)
		}
		// The driver could not turn our values into the server's, or back. Its
		// text repeats them.
		return rejected("not_encodable", "The statement does not take these arguments, or returns no reference and receipt.",
			"the driver refused the parameters or the row; rolled back", true)
	}
	seen := evidence("statement", err) + "; rolled back"
	switch refusalOf(pg.Code) {
	case ofValues:
		return rejected(conditionName(pg.Code), "The database refused the values: "+condition(pg)+".", seen, true)
	case ofStatement:
		return rejected(conditionName(pg.Code), "The database cannot run the statement: "+condition(pg)+".", seen, false)
	default:
		return notCommitted("statement", err)
	}
}

// notAcknowledged is for a COMMIT that was sent, or may have been. Of the
// server's answers only those count that it can give before it commits: an
// error of a deferred constraint or trigger, and a conflict. A FATAL one can
// follow a commit, as can the end of the connection.
func notAcknowledged(err error) actions.Outcome {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.SeverityUnlocalized != "ERROR" {
		return ambiguous(evidence("commit", err) + "; COMMIT was sent")
	}
	seen := evidence("commit", err) + "; rolled back"
	switch {
	case refusalOf(pg.Code) == ofValues:
		return rejected(conditionName(pg.Code), "The database refused the values: "+condition(pg)+".", seen, true)
	case pg.Code == pgerrcode.SerializationFailure, pg.Code == pgerrcode.DeadlockDetected:
		return notApplied("conflict", "Another transaction was in the way.", seen)
	}
	return ambiguous(evidence("commit", err) + "; COMMIT was sent")
}

// refusal says what an error of the server is about.
type refusal int

const (
	ofNobody    refusal = iota // the moment's: locks, load, a shutdown, and what is not known
	ofValues                   // the arguments: other ones could succeed
	ofStatement                // the declaration or the schema: a person must change it
)

func refusalOf(code string) refusal {
	switch {
	case pgerrcode.IsDataException(code), pgerrcode.IsIntegrityConstraintViolation(code),
		pgerrcode.IsWithCheckOptionViolation(code), code == pgerrcode.RaiseException:
		return ofValues
	case pgerrcode.IsSyntaxErrororAccessRuleViolation(code), pgerrcode.IsFeatureNotSupported(code),
		pgerrcode.IsCardinalityViolation(code), pgerrcode.IsInvalidSchemaName(code),
		pgerrcode.IsInvalidTransactionTermination(code):
		return ofStatement
	}
	return ofNobody
}

// condition names what was violated, for the caller.
func condition(pg *pgconn.PgError) string {
	switch {
	case pg.ConstraintName != "":
		return "constraint " + pg.ConstraintName
	case pg.ColumnName != "":
		return "column " + pg.ColumnName + ", condition " + pg.Code
	}
	return "condition " + pg.Code
}

// conditionName is the stable code of a refusal: the name of the common
// conditions, the SQLSTATE of the others.
func conditionName(code string) string {
	switch code {
	case pgerrcode.UniqueViolation:
		return "unique_violation"
	case pgerrcode.ForeignKeyViolation:
		return "foreign_key_violation"
	case pgerrcode.NotNullViolation:
		return "not_null_violation"
	case pgerrcode.CheckViolation:
		return "check_violation"
	case pgerrcode.ExclusionViolation:
		return "exclusion_violation"
	case pgerrcode.StringDataRightTruncationDataException:
		return "text_too_long"
	case pgerrcode.NumericValueOutOfRange:
		return "number_out_of_range"
	case pgerrcode.RaiseException:
		return "refused_by_database"
	}
	return "sqlstate_" + strings.ToLower(code)
}

// evidence is one line about an error. Connection errors of the driver name
// user and database, its others repeat values: only what is known to be
// harmless is kept.
func evidence(stage string, err error) string {
	var pg *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &pg):
		text := stage + ": " + pg.SeverityUnlocalized + " SQLSTATE " + pg.Code
		if pg.ConstraintName != "" {
			text += " constraint " + pg.ConstraintName
		}
		return text
	case errors.Is(err, ErrTable):
		return stage + ": the table of operation ids is missing or unfit; the check of the configuration says more"
	case errors.Is(err, ErrLedgerDatabase), errors.Is(err, ErrPlainText), errors.Is(err, ErrClosed):
		return stage + ": " + err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return stage + ": out of time"
	case errors.Is(err, context.Canceled):
		return stage + ": cancelled"
	case errors.As(err, &network):
		return stage + ": " + network.Error()
	}
	return stage + ": no answer"
}

func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// refusesCredentials reports an answer of the server to a login.
func refusesCredentials(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pgerrcode.IsInvalidAuthorizationSpecification(pg.Code)
}
