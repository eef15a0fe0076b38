package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions/httpaction"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// TestNothingIsSent: what the adapter refuses itself never reaches the provider,
// and it says so.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	asked := false
	l, err := newLoyalty(providerOptions{BaseURL: "http://192.0.2.1", Token: func() (string, error) { asked = true; return token, nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{loyalty: l}
	valid := &oncewardv1.ExecuteRequest{
		ActionType: actionType, Version: version, ContractVersion: contractVersion, Tenant: "acme",
		OperationId: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e", ProviderKey: "0123456789abcdefghijklmnop", ArgumentsJson: good,
	}
	for name, tt := range map[string]struct {
		change func(*oncewardv1.ExecuteRequest)
		left   time.Duration
		want   oncewardv1.OutcomeKind
		code   string
	}{
		"another version":          {func(r *oncewardv1.ExecuteRequest) { r.Version = "2" }, time.Minute, oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED, "version_not_served"},
		"another contract version": {func(r *oncewardv1.ExecuteRequest) { r.ContractVersion = "2" }, time.Minute, oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED, "version_not_served"},
		"another type":             {func(r *oncewardv1.ExecuteRequest) { r.ActionType = "loyalty.points.take" }, time.Minute, oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED, "version_not_served"},
		"no arguments":             {func(r *oncewardv1.ExecuteRequest) { r.ArgumentsJson = "[]" }, time.Minute, oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, "arguments_unreadable"},
		"too many points": {func(r *oncewardv1.ExecuteRequest) {
			r.ArgumentsJson = `{"order_total":4999,"points":50}`
		}, time.Minute, oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, "too_many_points"},
		"no time left": {func(*oncewardv1.ExecuteRequest) {}, -time.Second, oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED, "not_sent"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tt.left)
		r := proto.CloneOf(valid)
		tt.change(r)
		answer, err := s.Execute(ctx, r)
		cancel()
		if o := answer.GetOutcome(); err != nil || o.GetKind() != tt.want || o.GetFailure().GetCode() != tt.code {
			t.Errorf("%s: got %v, %v; want %s %s", name, answer, err, tt.want, tt.code)
		}
	}
	if asked {
		t.Error("the provider's token was asked for: something was about to be sent")
	}
}

// TestOperationToken: the token of an attempt goes to the provider with the
// write, and where there is none nothing stands in its place.
func TestOperationToken(t *testing.T) {
	t.Parallel()
	got := make(chan []string, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Values(httpaction.TokenHeader)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"gr_1","member_id":"mb_7","points":49}`)
	}))
	t.Cleanup(provider.Close)
	l, err := newLoyalty(providerOptions{
		BaseURL: provider.URL, Token: func() (string, error) { return token, nil }, PrivateNetworks: httpaction.Loopback(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{loyalty: l}
	for _, operationToken := range []string{"signed.by.onceward", ""} {
		answer, err := s.Execute(t.Context(), &oncewardv1.ExecuteRequest{
			ActionType: actionType, Version: version, ContractVersion: contractVersion, Tenant: "acme",
			OperationId: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e", ProviderKey: "0123456789abcdefghijklmnop", ArgumentsJson: good,
			OperationToken: operationToken,
		})
		if err != nil || answer.GetOutcome().GetKind() != oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED {
			t.Fatalf("got %v, %v", answer, err)
		}
		if seen := <-got; strings.Join(seen, ",") != operationToken {
			t.Errorf("the provider got %q, want %q", seen, operationToken)
		}
	}
}
