package postgres_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// Whatever the provider sent, a success is stored as one, and what is clean
// comes back byte for byte.
func TestLaw06_ReceiptsAreStoredWhateverTheyHold(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for name, receipt := range map[string]string{
		"odd spacing":       "{ \"b\" : 1.50 ,\n\t\"a\":1e400 }",
		"double key":        `{"a":1,"a":2}`,
		"escaped NUL":       `{"a":"\u0000"}`,
		"lone surrogate":    `{"a":"\ud800"}`,
		"reversed pair":     `{"\udc00\ud800":"\udc00"}`,
		"huge number":       `{"a":123456789012345678901234567890.123456789e-99999}`,
		"not Latin":         `{"ä":"名前 🎉` + "\u2028\uFFFE" + `"}`,
		"space around":      "\r\n {} ",
		"deep":              `{"a":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
		"deep objects":      strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000),
		"long":              `{"a":"` + strings.Repeat("é", 32_000) + `"}`,
		"raw NUL":           "{\"a\":\"\x00\"}",
		"invalid UTF-8":     "{\"a\":\"\xff\"}",
		"raw surrogate":     "{\"a\":\"\xed\xa0\x80\"}",
		"too long":          `{"a":"` + strings.Repeat("x", 5<<20) + `"}`,
		"not JSON":          "<html>",
		"nothing":           "",
		"control character": "{\"a\":\"\x01\"}",
	} {
		change := ledgertest.Change(inState(t, store, ledger.Running), ledger.Confirm)
		change.Receipt = []byte(receipt)
		done, err := store.Apply(t.Context(), change)
		if err != nil || done.State != ledger.Succeeded {
			t.Errorf("%s: %s, %v; want it succeeded", name, done.State, err)
			continue
		}
		if want := ledger.StorableReceipt([]byte(receipt)); string(done.Receipt) != string(want) {
			t.Errorf("%s: came back as %.200q, want %.200q", name, done.Receipt, want)
		}
		if again := ledgertest.Get(t, store, done); string(again.Receipt) != string(done.Receipt) {
			t.Errorf("%s: read again as %.200q", name, again.Receipt)
		}
	}
}

// The same for every text that a provider may have a hand in.
func TestTextIsStoredWhateverItHolds(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for _, text := range []string{"a\x00b", "a\xffb", `\ud800 \u0000`, strings.Repeat("名", 5000)} {
		change := ledgertest.Change(inState(t, store, ledger.Running), ledger.Doubt)
		change.Detail, change.Detail, change.ProviderReference, change.Reason = text, text, text, text
		change.Failure = &ledger.Failure{Code: text, Message: text, Violations: []ledger.Violation{{Field: text, Reason: text, Message: text}}}
		op, err := store.Apply(t.Context(), change)
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		if _, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Actor: "worker", Detail: text, Incident: text, ProviderReference: text}); err != nil {
			t.Errorf("evidence %.20q: %v", text, err)
		}
		escalate := ledgertest.Change(op, ledger.Escalate)
		escalate.Review.Detail = text
		op, err = store.Apply(t.Context(), escalate)
		if err != nil {
			t.Errorf("review %.20q: %v", text, err)
			continue
		}
		answer := ledgertest.Change(ledgertest.Get(t, store, op), ledger.Refuse)
		answer.Decision.Note = text
		if _, err := store.Apply(t.Context(), answer); err != nil {
			t.Errorf("note %.20q: %v", text, err)
		}
	}
}

// When an operation was confirmed is what the audit record says of its
// confirmation, and what is learned later does not change it: signed receipts
// tell it.
func TestWhenAnOperationWasSettledStays(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	running := inState(t, store, ledger.Running)
	if !running.SettledAt.IsZero() {
		t.Errorf("while it runs: settled at %v", running.SettledAt)
	}
	done, err := store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
	if err != nil || done.SettledAt.IsZero() {
		t.Fatalf("settled at %v, %v", done.SettledAt, err)
	}
	noted, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: done, Actor: "worker", Detail: "late"})
	if err != nil || !noted.UpdatedAt.After(done.UpdatedAt) {
		t.Fatalf("a note: %+v, %v", noted, err)
	}
	for what, op := range map[string]ledger.Operation{"the note": noted, "a read": ledgertest.Get(t, store, done)} {
		if !op.SettledAt.Equal(done.SettledAt) {
			t.Errorf("by %s it was settled at %v, first at %v", what, op.SettledAt, done.SettledAt)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE operation_id = $1::uuid AND event = 'confirm' AND at = $2`, done.ID, done.SettledAt); n != 1 {
		t.Errorf("the audit record does not have its confirmation at %v", done.SettledAt)
	}
}
