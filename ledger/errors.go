package ledger

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound: no such operation, key or review in this tenant.
	ErrNotFound = errors.New("ledger: not found")
	// ErrFenced: the operation is no longer as the caller knew it; nothing was
	// changed. Read it again.
	ErrFenced = errors.New("ledger: fenced: the operation has moved on")
	// ErrIllegalMove: the state machine has no such move; nothing was changed.
	ErrIllegalMove = errors.New("ledger: illegal move")
	// ErrUnavailable: the database did not answer. Whether a write was made is
	// unknown; the caller must send nothing on the strength of it.
	ErrUnavailable = errors.New("ledger: unavailable")
	// ErrUnsafeCommit: the commit is on the primary only, because waiting for
	// its standby was cancelled. A claim under it must not be sent.
	ErrUnsafeCommit = errors.New("ledger: commit was not replicated")
	// ErrOverloaded: more wait for the database than it can serve soon; nothing
	// was written.
	ErrOverloaded = errors.New("ledger: overloaded")
	// ErrKeyExpired: the key's operation is past its window, and the action
	// type refuses such keys for ever.
	ErrKeyExpired = errors.New("ledger: key expired")
)

// KeyReusedError says that a key is taken by an operation with other arguments
// or another action type. Nothing was changed.
type KeyReusedError struct {
	Existing Operation
}

func (e *KeyReusedError) Error() string {
	return fmt.Sprintf("ledger: key is taken by operation %s with other arguments", e.Existing.ID)
}

// WriteRefusedError says that the database refused the statement that is the
// effect of an operation (a constraint, bad data). The transaction was rolled
// back: nothing was applied and nothing moved.
type WriteRefusedError struct {
	Code    string // SQLSTATE
	Message string // constraint or condition, without data
}

func (e *WriteRefusedError) Error() string {
	return fmt.Sprintf("ledger: write refused (SQLSTATE %s): %s", e.Code, e.Message)
}
