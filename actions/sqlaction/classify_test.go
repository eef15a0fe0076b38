package sqlaction

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/actions"
)

// What an answer to COMMIT proves. The allow-list is short: errors that the
// server gives before it commits.
func TestAnswersToCommit(t *testing.T) {
	t.Parallel()
	answer := func(severity, code string) error {
		return &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "secret", Detail: "secret"}
	}
	for name, test := range map[string]struct {
		err  error
		kind actions.Kind
	}{
		"deferred constraint":      {answer("ERROR", "23503"), actions.Rejected},
		"deferred trigger":         {answer("ERROR", "P0001"), actions.Rejected},
		"serialization":            {answer("ERROR", "40001"), actions.NotApplied},
		"deadlock":                 {answer("ERROR", "40P01"), actions.NotApplied},
		"completion unknown":       {answer("ERROR", "40003"), actions.Ambiguous},
		"cancelled":                {answer("ERROR", "57014"), actions.Ambiguous},
		"shutdown":                 {answer("FATAL", "57P01"), actions.Ambiguous},
		"end of a session":         {answer("FATAL", "23503"), actions.Ambiguous},
		"crash":                    {answer("PANIC", "40001"), actions.Ambiguous},
		"severity is not told":     {&pgconn.PgError{Severity: "FEHLER", Code: "23503"}, actions.Ambiguous},
		"a code that nobody knows": {answer("ERROR", "ZZ999"), actions.Ambiguous},
		"no answer":                {errors.New("conn closed: secret"), actions.Ambiguous},
		"out of time":              {context.DeadlineExceeded, actions.Ambiguous},
	} {
		o := notAcknowledged(test.err)
		if o.Kind != test.kind || o.Failure.Code == "" || o.Failure.Evidence == "" {
			t.Errorf("%s: %s %+v, want %s", name, o.Kind, o.Failure, test.kind)
		}
		if strings.Contains(o.Failure.Evidence+o.Failure.Message, "secret") {
			t.Errorf("%s: %+v repeats the server's text", name, o.Failure)
		}
	}
}

// An attempt is late when its deadline has passed or it was called off.
func TestLate(t *testing.T) {
	t.Parallel()
	at := func(d time.Time) context.Context {
		ctx, cancel := context.WithDeadline(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	off, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		late bool
	}{
		"no deadline": {t.Context(), false},
		"in time":     {at(time.Now().Add(time.Hour)), false},
		"past":        {at(time.Now().Add(-time.Millisecond)), true},
		"called off":  {off, true},
	} {
		if got := late(test.ctx); got != test.late {
			t.Errorf("%s: late is %v", name, got)
		}
	}
}

// The server's own limits end before the attempt does, and are never none.
func TestServerTimes(t *testing.T) {
	t.Parallel()
	for left, most := range map[time.Duration][2]time.Duration{
		30 * time.Second:      {14500 * time.Millisecond, 29 * time.Second},
		time.Second:           {400 * time.Millisecond, 800 * time.Millisecond},
		-time.Second:          {time.Millisecond, time.Millisecond},
		100 * time.Nanosecond: {time.Millisecond, time.Millisecond},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		lock, statement := serverTimes(ctx)
		cancel()
		for i, text := range []string{lock, statement} {
			got, err := time.ParseDuration(text)
			if err != nil || got <= 0 || got > most[i] {
				t.Errorf("%s left: limit %d is %s, want at most %s", left, i, text, most[i])
			}
		}
	}
}
