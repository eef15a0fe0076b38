package laws

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Without a good credential no RPC does anything, and the answer does not tell
// what is wrong with it.
func TestCredentialsOfEachCall(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	good := w.Key(t, "acme", "all", strings.Fields(everyone)...)
	bearer := func(values ...string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			var pairs []string
			for _, v := range values {
				pairs = append(pairs, "authorization", v)
			}
			return metadata.AppendToOutgoingContext(ctx, pairs...)
		}
	}
	naming := func(tenants ...string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			var pairs []string
			for _, tenant := range tenants {
				pairs = append(pairs, "onceward-tenant", tenant)
			}
			return metadata.AppendToOutgoingContext(apptest.As(ctx, good), pairs...)
		}
	}
	key, err := apikey.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	revoked, expired := w.Key(t, "acme", "gone", "agent"), apikey.New("acme")
	gone, err := apikey.Parse(revoked)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Owner().RevokeCredential(t.Context(), "acme", gone.ID); err != nil {
		t.Fatal(err)
	}
	hash := expired.Hash()
	if err := w.Owner().AddCredential(t.Context(), postgres.Credential{
		Tenant: "acme", KeyID: expired.ID, Hash: hash[:], Actor: "late", Roles: []string{"agent"}, ExpiresAt: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	off := w.Key(t, "switched-off", "all", strings.Fields(everyone)...)
	if err := w.Owner().SetTenantActive(t.Context(), "switched-off", false); err != nil {
		t.Fatal(err)
	}
	check := unchanged(t, w)
	messages := map[string]bool{}
	for name, c := range map[string]struct {
		credential func(context.Context) context.Context
		code       codes.Code
		reason     string
	}{
		"none":            {bearer(), codes.Unauthenticated, "UNAUTHENTICATED"},
		"empty":           {bearer(""), codes.Unauthenticated, "UNAUTHENTICATED"},
		"no scheme":       {bearer(good), codes.Unauthenticated, "UNAUTHENTICATED"},
		"other scheme":    {bearer("Basic " + good), codes.Unauthenticated, "UNAUTHENTICATED"},
		"two":             {bearer("Bearer "+good, "Bearer "+good), codes.Unauthenticated, "UNAUTHENTICATED"},
		"malformed":       {bearer("Bearer ow_acme"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"wrong secret":    {bearer("Bearer ow_acme." + key.ID + ".0000000000000000000000000000000v"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"unknown id":      {bearer("Bearer ow_acme.0000000000000000.0000000000000000000000000000000v"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"another tenant":  {bearer("Bearer " + strings.Replace(good, "ow_acme", "ow_globex", 1)), codes.Unauthenticated, "UNAUTHENTICATED"},
		"names another":   {naming("globex"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"names nobody":    {naming(""), codes.Unauthenticated, "UNAUTHENTICATED"},
		"names two":       {naming("acme", "globex"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"SQL":             {bearer("Bearer ow_acme' OR '1'='1." + key.ID + ".0"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"revoked":         {bearer("Bearer " + revoked), codes.Unauthenticated, "UNAUTHENTICATED"},
		"expired":         {bearer("Bearer " + expired.Text()), codes.Unauthenticated, "UNAUTHENTICATED"},
		"inactive tenant": {bearer("Bearer " + off), codes.PermissionDenied, "TENANT_INACTIVE"},
	} {
		for _, each := range served(t, r) {
			_, err := each.invoke(c.credential(t.Context()), r, subject{})
			st := apptest.WantReason(t, err, c.code, c.reason)
			wantPlain(t, err)
			if strings.Contains(st.Message(), key.ID) || strings.Contains(st.Message(), "0000v") {
				t.Errorf("%s: the error repeats the credential: %s", name, st.Message())
			}
			if strings.HasPrefix(name, "wrong") || strings.HasPrefix(name, "unknown") || strings.HasPrefix(name, "names") || name == "revoked" || name == "expired" || name == "malformed" {
				messages[st.Message()] = true
			}
		}
	}
	if len(messages) != 1 {
		t.Errorf("the answers tell bad credentials apart: %v", messages)
	}
	check(t)
	if _, err := r.Actions.ListOperations(naming("acme")(t.Context()), &oncewardv1.ListOperationsRequest{}); err != nil {
		t.Errorf("the credential's own tenant is named: %v", err)
	}
	// Not each refusal is recorded by itself, where there are so many.
	apptest.Eventually(t, func() bool {
		_, err := r.Actions.ListOperations(naming("globex")(t.Context()), &oncewardv1.ListOperationsRequest{})
		apptest.WantReason(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
		return w.Database.Count(t, `SELECT count(*) FROM audit_events
			WHERE event = 'deny' AND tenant_id = 'acme' AND actor = 'all' AND detail LIKE '%names another tenant%'`) > 0
	}, func() string { return "who named another tenant is not in the audit record" })
}
