package laws

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// For every RPC, what belongs to another tenant is what does not exist: the
// same code, reason, message and details, and nothing changes.
func TestLaw10_AnothersIsNobodys(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{newStub("test.approved", applied).approved()}})
	r := w.Start(t, nil)
	asked := w.AskIn(t, r, stubRequest("test.approved", "secret-key"), needsReview).GetOperation()
	theirs := subject{asked.GetId(), "secret-key", asked.GetReview().GetId()}
	none := subject{"01890000-0000-7000-8000-000000000000", "no-such-key", "01890000-0000-7000-8000-000000000000"}
	stranger := apptest.As(t.Context(), w.Key(t, "globex", "all", strings.Fields(everyone)...))
	check := unchanged(t, w)
	for _, c := range served(t, r) {
		_, got := c.invoke(stranger, r, theirs)
		_, want := c.invoke(stranger, r, none)
		if c.unknown == "" {
			if got != nil || want != nil {
				t.Errorf("%s: %v, %v", c.method, got, want)
			}
			continue
		}
		apptest.WantReason(t, got, codes.NotFound, c.unknown)
		if !proto.Equal(status.Convert(got).Proto(), status.Convert(want).Proto()) {
			t.Errorf("%s tells another's from nobody's:\n%v\n%v", c.method, status.Convert(got).Proto(), status.Convert(want).Proto())
		}
	}
	byKey := func(key string) error {
		_, err := r.Actions.GetOperation(stranger, &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_IdempotencyKey{IdempotencyKey: key}})
		return err
	}
	if got, want := byKey(theirs.key), byKey(none.key); !proto.Equal(status.Convert(got).Proto(), status.Convert(want).Proto()) || status.Code(got) != codes.NotFound {
		t.Errorf("by key: %v, %v", got, want)
	}
	list, err := r.Actions.ListOperations(stranger, &oncewardv1.ListOperationsRequest{})
	if err != nil || len(list.GetOperations()) != 0 {
		t.Errorf("the stranger lists %v, %v", list, err)
	}
	reviews, err := r.Reviews.ListReviews(stranger, &oncewardv1.ListReviewsRequest{})
	if err != nil || len(reviews.GetReviews()) != 0 {
		t.Errorf("the stranger lists the reviews %v, %v", reviews, err)
	}
	check(t)
}

// Two tenants with the same key have two operations that know nothing of each
// other: neither blocks, refuses or answers the other's, and no log line names
// both.
func TestLaw10_SameKeyOfTwoTenants(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	var log lines
	r := w.Start(t, func(c *app.Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	req := apptest.Keyed(apptest.Refund("ch_1", 500, "run_1"), "same-key")
	other := apptest.Keyed(apptest.Refund("ch_1", 700, "run_1"), "same-key") // another's arguments are no mismatch
	var ids [2]string
	together(2, func(i int) {
		credential, mine := w.Agent, req
		if i == 1 {
			credential, mine = w.Globex, other
		}
		for range 3 {
			resp, err := r.Actions.RequestAction(apptest.As(t.Context(), credential), mine)
			if err != nil {
				t.Errorf("tenant %d: %v", i, err)
				return
			}
			ids[i] = resp.GetOperation().GetId()
			if got := resp.GetOperation(); got.GetState() != succeeded || got.GetTenant() != []string{"acme", "globex"}[i] {
				t.Errorf("tenant %d got %v", i, got)
			}
		}
	})
	if ids[0] == ids[1] {
		t.Fatalf("both tenants have operation %s", ids[0])
	}
	w.WantEffects(t, 2)
	for _, line := range log.all() {
		if strings.Contains(line, ids[0]) && strings.Contains(line, "globex") || strings.Contains(line, ids[1]) && strings.Contains(line, "acme") {
			t.Errorf("a log line mixes tenants: %s", line)
		}
		if strings.Contains(line, "ch_1") {
			t.Errorf("a log line holds arguments: %s", line)
		}
		if strings.Contains(line, w.Agent) || strings.Contains(line, w.Globex) {
			t.Errorf("a log line holds a credential: %s", line)
		}
	}
	if len(log.all()) == 0 {
		t.Error("nothing was logged: the test cannot see a mix")
	}
	if keys := providerKeys(w); len(keys) != 2 {
		t.Errorf("the provider saw the keys %v, want one for each tenant", keys)
	}
}

// providerKeys returns the distinct keys of writes.
func providerKeys(w *apptest.World) map[string]int {
	keys := map[string]int{}
	for _, r := range w.Provider.Requests() {
		if r.Method == http.MethodPost {
			keys[r.Key]++
		}
	}
	return keys
}

// lines keeps what is written to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}
