package actionstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/proof"
)

// Run proves an adapter safe, or fails the test: once for each path with a
// verdict of failure, and for each danger that is an error and was not
// acknowledged. Every path is a subtest, so that -run can name some. It takes a
// second or two and a database of the tests' server.
func Run(t *testing.T, subject proof.Subject) {
	t.Helper()
	report := Report(t, subject)
	for _, p := range report.Paths {
		t.Run(p.Path, func(t *testing.T) {
			switch {
			case p.Verdict == proof.NotApplicable:
				t.Skipf("%s: not applicable: %s", p.Title, p.Detail)
			case p.Verdict.Failed():
				t.Errorf("%s: %s: %s\n%s", p.Title, p.Verdict, p.Detail, counted(p))
			default:
				t.Logf("%s: %s", p.Title, counted(p))
			}
		})
	}
	for _, d := range report.Dangers {
		if d.Severity == proof.Error {
			t.Errorf("danger %s: %s", d.Code, d.Message)
		} else {
			t.Logf("danger %s (warning): %s %s", d.Code, d.Message, d.Acknowledged)
		}
	}
}

// counted says what was seen of a path.
func counted(p proof.PathReport) string {
	return fmt.Sprintf("%d writes, %d look-ups, %d attempts; %d effects on the target; the operation is %s %s (%s)",
		p.Writes, p.Lookups, p.Attempts, p.Effects, p.State, p.Reason, p.Took.Round(time.Millisecond))
}

// Report walks the paths and returns what came of them. It fails the test only
// where they could not be walked.
func Report(t *testing.T, subject proof.Subject) proof.SubjectReport {
	t.Helper()
	db := ledgertest.NewDatabase(t)
	report, err := proof.Run(t.Context(), proof.Options{
		OwnerURL: db.OwnerURL, ServeURL: db.ServeURL, Subjects: []proof.Subject{subject},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report.Subjects[0]
}
