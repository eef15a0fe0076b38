package simulated_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/catalog"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/proof"
	"github.com/onceward/onceward/proof/simulated"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// Every action of the catalogue, and the guide's example, walks every ugly path
// and makes at most one effect.
func TestCatalogIsSafe(t *testing.T) {
	names, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	set, err := catalog.Load(names...)
	if err != nil {
		t.Fatal(err)
	}
	subjects := subjectsOf(t, set)
	example, err := definition.Load("../../examples/provider")
	if err != nil {
		t.Fatal(err)
	}
	prove(t, append(subjects, subjectsOf(t, example)...))
}

func subjectsOf(t *testing.T, set *definition.Set) []proof.Subject {
	t.Helper()
	subjects, err := simulated.Subjects(set)
	if err != nil {
		t.Fatal(err)
	}
	return subjects
}

// prove fails the test for every path and danger that is not safe.
func prove(t *testing.T, subjects []proof.Subject) {
	t.Helper()
	db := ledgertest.NewDatabase(t)
	report, err := proof.Run(t.Context(), proof.Options{
		OwnerURL: db.OwnerURL, ServeURL: db.ServeURL, Subjects: subjects,
		Parallel: 3, // other packages are tested beside: hundreds of operations at once would starve each other
	})
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for _, s := range report.Subjects {
		for _, p := range s.Paths {
			if p.Verdict != proof.NotApplicable {
				walked++
			}
			if p.Verdict.Failed() {
				t.Errorf("%s, %s: %s: %s", s.ActionType, p.Path, p.Verdict, p.Detail)
			}
		}
		for _, d := range s.Dangers {
			if d.Severity == proof.Error {
				t.Errorf("%s: danger %s: %s", s.ActionType, d.Code, d.Message)
			}
		}
	}
	t.Logf("%d action types, %d paths walked", len(report.Subjects), walked)
	if least := 30 * len(subjects); walked < least {
		t.Errorf("only %d paths were walked: want at least %d", walked, least)
	}
}
