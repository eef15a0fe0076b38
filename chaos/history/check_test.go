package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
)

// The calls of one key, as short as a test wants them.
func request(from, to int, arguments int, answer Answer) Call {
	return Call{Tenant: "acme", Key: "k", Kind: Request, Arguments: arguments, Answer: answer,
		Invoked: time.Duration(from), Returned: time.Duration(to)}
}

func read(from, to int, answer Answer) Call {
	c := request(from, to, 0, answer)
	c.Kind = Read
	return c
}

func (c Call) is(state ledger.State, receipt string) Call {
	c.State, c.OperationID = state, "op"
	if state == ledger.Succeeded {
		c.Receipt, c.Reference = receipt, "re_1"
	}
	return c
}

func (c Call) because(reason string) Call {
	c.Reason = reason
	return c
}

func cancelling(c Call) Call {
	c.Kind = Cancel
	return c
}

func correcting(c Call) Call {
	c.Corrects = true
	return c
}

func TestCheck(t *testing.T) {
	anotherOperation := request(3, 4, 0, Told).is(ledger.Succeeded, "a")
	anotherOperation.OperationID = "other"
	anotherReference := request(3, 4, 0, Told).is(ledger.Succeeded, "a")
	anotherReference.Reference = "re_2"
	succeeded := request(1, 2, 0, Told).is(ledger.Succeeded, "a")
	failed := request(1, 2, 0, Told).is(ledger.Failed, "")
	for _, test := range []struct {
		name  string
		calls []Call
		fits  bool
	}{
		{"nobody asked", nil, true},
		{"one success", []Call{succeeded}, true},
		{"the same receipt again", []Call{succeeded, request(3, 4, 0, Told).is(ledger.Succeeded, "a")}, true},
		{"another receipt", []Call{succeeded, request(3, 4, 0, Told).is(ledger.Succeeded, "b")}, false},
		{"another receipt at the same time", []Call{succeeded, request(1, 2, 0, Told).is(ledger.Succeeded, "b")}, false},
		{"another reference", []Call{succeeded, anotherReference}, false},
		{"another operation", []Call{succeeded, anotherOperation}, false},
		{"open after a success", []Call{succeeded, read(3, 4, Told).is(ledger.Unknown, "")}, false},
		{"open beside a success", []Call{request(1, 5, 0, Told).is(ledger.Succeeded, "a"), read(2, 4, Told).is(ledger.Running, "")}, true},
		{"open before it was asked for", []Call{read(1, 2, Told).is(ledger.Running, ""), request(3, 4, 0, Told).is(ledger.Running, "")}, false},
		{"doubt, then a success", []Call{request(1, 2, 0, Told).is(ledger.Unknown, ""), read(3, 4, Told).is(ledger.Succeeded, "a")}, true},
		{"failed after a success", []Call{succeeded, read(3, 4, Told).is(ledger.Failed, "")}, false},
		{"a success after failed", []Call{failed, request(3, 4, 0, Told).is(ledger.Succeeded, "a")}, false},
		{"open after failed", []Call{failed, read(3, 4, Told).is(ledger.Pending, "")}, false},
		{"failed again", []Call{failed, request(3, 4, 0, Told).is(ledger.Failed, "")}, true},
		{"lost: absent after it was told", []Call{succeeded, read(3, 4, Absent)}, false},
		{"absent before", []Call{read(0, 1, Absent), succeeded}, true},
		{"other arguments refused", []Call{succeeded, request(3, 4, 1, Reused)}, true},
		{"other arguments refused at the same time", []Call{request(1, 4, 0, Told).is(ledger.Succeeded, "a"), request(2, 3, 1, Reused)}, true},
		{"other arguments accepted", []Call{succeeded, request(3, 4, 1, Told).is(ledger.Succeeded, "a")}, false},
		{"own arguments refused", []Call{succeeded, request(3, 4, 0, Reused)}, false},
		{"refused while nobody holds the key", []Call{request(1, 2, 1, Reused), request(3, 4, 0, Told).is(ledger.Running, "")}, false},
		{"refused because of a request without an answer", []Call{request(1, 2, 0, Nothing), request(3, 4, 1, Reused)}, true},
		{"refused because of a request that comes later", []Call{request(3, 4, 1, Reused), request(5, 6, 0, Nothing)}, false},
		{"a request without an answer took the key", []Call{request(1, 2, 0, Nothing), read(3, 4, Told).is(ledger.Succeeded, "a")}, true},
		{"a request without an answer did not", []Call{request(1, 2, 0, Nothing), read(3, 4, Absent), request(5, 6, 1, Told).is(ledger.Running, "")}, true},
		{"a request without an answer came late", []Call{request(1, 2, 0, Nothing), read(3, 4, Absent), request(5, 6, 1, Reused)}, true},
		{"of two without an answer one took it", []Call{request(1, 2, 0, Nothing), request(1, 2, 1, Nothing), request(3, 4, 1, Told).is(ledger.Running, ""), request(5, 6, 0, Reused)}, true},
		{"and not both", []Call{request(1, 2, 0, Nothing), request(1, 2, 1, Nothing), request(3, 4, 0, Reused), request(5, 6, 1, Reused)}, false},
		{"refused by policy changes nothing", []Call{request(1, 2, 0, Refused), read(3, 4, Absent)}, true},
		{"refused by policy was recorded all the same", []Call{request(1, 2, 0, Refused), read(3, 4, Told).is(ledger.Running, "")}, false},
		{"refused by policy after a success", []Call{succeeded, request(3, 4, 0, Refused)}, false},
		{"refused by policy after failed", []Call{failed, request(3, 4, 0, Refused)}, false},
		{"refused beside a success", []Call{request(1, 4, 0, Told).is(ledger.Succeeded, "a"), request(2, 3, 0, Refused)}, true},
		{"too busy after a success", []Call{succeeded, request(3, 4, 0, Refused).because("OVERLOADED")}, true},
		{"a refused cancel after a success", []Call{succeeded, cancelling(request(3, 4, 0, Refused))}, true},
		{"a correction", []Call{failed, correcting(request(3, 4, 2, Told).is(ledger.Succeeded, "a")), request(5, 6, 0, Reused)}, true},
		{"a correction without an answer", []Call{failed, correcting(request(3, 4, 2, Nothing)), read(5, 6, Told).is(ledger.Succeeded, "a")}, true},
		{"a correction of what has succeeded", []Call{succeeded, correcting(request(3, 4, 2, Told).is(ledger.Succeeded, "a"))}, false},
		{"after a correction the first arguments are other ones", []Call{failed, correcting(request(3, 4, 2, Told).is(ledger.Succeeded, "a")), request(5, 6, 0, Told).is(ledger.Succeeded, "a")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Check(test.calls, time.Minute)
			if fits := len(found) == 0; fits != test.fits {
				t.Errorf("fits is %t, want %t: %v", fits, test.fits, test.calls)
			}
		})
	}
}

// However many ask at one moment, it is found out whether they fit. (Seed 203 had 21 of
// them, and there was no answer in 20 s.)
func TestCheckManyAtOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		last Call
		fits bool
	}{
		{"doubt meanwhile", read(50, 51, Told).is(ledger.Unknown, ""), true},
		{"doubt afterwards", read(201, 202, Told).is(ledger.Unknown, ""), false},
		{"refused meanwhile", request(50, 51, 0, Refused), true},
		{"refused afterwards", request(201, 202, 0, Refused), false},
		{"absent meanwhile", read(50, 51, Absent), true},
		{"absent afterwards", read(201, 202, Absent), false},
		{"another receipt meanwhile", read(50, 51, Told).is(ledger.Succeeded, "b"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := []Call{test.last}
			for i := range 40 {
				calls = append(calls, request(i, 100+i, 0, Told).is(ledger.Succeeded, "a"), request(60+i, 100+i, 1, Reused))
			}
			found := Check(calls, 10*time.Second)
			if fits := len(found) == 0; fits != test.fits || !fits && found[0].Undecided {
				t.Errorf("fits is %t, want %t: %v", fits, test.fits, found)
			}
		})
	}
}

// Where a call may have its place does not change what fits: random histories of a few
// calls, checked with places and without.
func TestPlacesChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fitting := 0
	const histories = 20_000
	for range histories {
		var calls []Call
		for range 2 + r.IntN(5) {
			from := r.IntN(12)
			c := request(from, from+1+r.IntN(8), r.IntN(2), []Answer{Nothing, Told, Told, Told, Reused, Refused, Absent}[r.IntN(7)])
			c.Kind = []Kind{Request, Request, Request, Read}[r.IntN(4)]
			if c.Answer == Told {
				c = c.is([]ledger.State{ledger.Unknown, ledger.Succeeded, ledger.Failed}[r.IntN(3)], []string{"a", "a", "b"}[r.IntN(3)])
			}
			if c.Kind == Request && r.IntN(6) == 0 {
				c.Corrects = true
			}
			calls = append(calls, c)
		}
		placed, whole := check(calls, time.Minute, Call.place), check(calls, time.Minute, func(c Call, _ bool) (from, to time.Duration) { return c.Invoked, c.Returned })
		if len(placed) != len(whole) {
			t.Fatalf("with places: %v, without: %v, of %v", placed, whole, calls)
		}
		if len(whole) == 0 {
			fitting++
		}
	}
	if fitting < histories/20 || fitting > histories*19/20 {
		t.Errorf("%d of %d histories fit: that tests little", fitting, histories)
	}
}

// One key's fault is not another's, nor another tenant's.
func TestCheckByKey(t *testing.T) {
	good := request(1, 2, 0, Told).is(ledger.Succeeded, "a")
	bad := request(3, 4, 0, Told).is(ledger.Succeeded, "b")
	elsewhere := bad
	elsewhere.Tenant = "globex"
	if found := Check([]Call{good, elsewhere}, time.Minute); len(found) != 0 {
		t.Errorf("two tenants' keys are one: %v", found)
	}
	if found := Check([]Call{good, bad, elsewhere}, time.Minute); len(found) != 1 || found[0] != (Finding{Tenant: "acme", Key: "k"}) {
		t.Errorf("found %v", found)
	}
}
