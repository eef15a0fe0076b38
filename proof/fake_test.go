package proof

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// mail sends a mail to a fake provider, or fails with the connection's error.
func mail(t *testing.T, f *Fake) error {
	t.Helper()
	body := `{"to":"dana@example.test","invoice_id":"inv_1","revision":1}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL()+"/v1/emails", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func TestFake(t *testing.T) {
	t.Parallel()
	f, err := StartFake(fakeprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Next(fakeprovider.Fault{Kind: "no such thing"}); err == nil || f.Pending() != 0 {
		t.Errorf("an unknown fault was scripted: %v, %d", err, f.Pending())
	}
	if err := f.Next(fakeprovider.Fault{Kind: fakeprovider.HTML502}); err != nil || f.Pending() != 1 {
		t.Errorf("a fault was not scripted: %v, %d", err, f.Pending())
	}
	if err := mail(t, f); err != nil {
		t.Fatal(err)
	}
	if err := f.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := mail(t, f); err == nil {
		t.Error("a paused provider can be reached")
	}
	if err := f.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := mail(t, f); err != nil {
		t.Fatal(err)
	}
	quiet, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.Quiet(quiet); err != nil {
		t.Fatal(err)
	}
	requests, effects := f.Requests(), f.Effects()
	if len(requests) != 2 || len(effects) != 1 || effects[0].Reference == "" {
		t.Fatalf("requests %+v, effects %+v", requests, effects)
	}
	first, second := requests[0], requests[1]
	if !first.Write || first.Effect || first.Status != http.StatusBadGateway || !second.Effect || first.Digest != second.Digest {
		t.Errorf("requests %+v", requests)
	}
	f.Reference = func(e fakeprovider.Effect) string { return e.NaturalKey }
	if got := f.Effects()[0].Reference; got != fakeprovider.MailOf("dana@example.test", "inv_1", 1) {
		t.Errorf("reference %q", got)
	}
}
