package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

// A replica of a ledger that is being recovered is ready, and says what it does.
func TestRecoveryIsSeen(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	owner, err := postgres.Open(t.Context(), w.Database.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	if _, err := owner.BeginRestore(t.Context(), ledger.Restore{LostFrom: time.Now().Add(-time.Hour), LostUntil: time.Now(), BegunBy: "operator:test"}); err != nil {
		t.Fatal(err)
	}
	var url string
	w.Start(t, watched(t, &url))
	const says = `{"name":"recovery","ok":true,"reason":"the ledger was restored`
	if code, body := page(t, url+"/readyz"); code != http.StatusOK || !strings.Contains(body, says) {
		t.Errorf("readyz: %d %s", code, body)
	}
	shown(t, url, []string{"onceward_restores 1"}, nil)
	if err := owner.EndRestore(t.Context(), "operator:test", "over"); err != nil {
		t.Fatal(err)
	}
	shown(t, url, []string{"onceward_restores 0"}, nil)
	eventually(t, w, "readyz says nothing of it", func() bool {
		_, body := page(t, url+"/readyz")
		return !strings.Contains(body, "recovery")
	})
}
