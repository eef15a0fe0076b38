package laws

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// call is one RPC of the contract.
type call struct {
	method string
	roles  string // who may, in one line
	// invoke makes the call about an operation, a key and a review, as far as
	// the RPC names any.
	invoke func(ctx context.Context, r *apptest.Replica, on subject) error
	// unknown is the reason of NOT_FOUND when it names somebody else's; empty
	// where it names nothing.
	unknown string
}

// subject is what a call is about.
type subject struct{ operation, key, review string }

const everyone = "admin agent auditor reviewer"

// calls is every RPC. A test fails when one is missing.
func calls() []call {
	return []call{
		{"ActionService.RequestAction", "agent", func(ctx context.Context, r *apptest.Replica, on subject) error {
			req := apptest.Refund("ch_call", 5, "run_call")
			req.CorrectsOperationId = on.operation
			_, err := r.Actions.RequestAction(ctx, req)
			return err
		}, "OPERATION_NOT_FOUND"},
		{"ActionService.PreviewAction", "agent", func(ctx context.Context, r *apptest.Replica, on subject) error {
			req := apptest.Refund("ch_call", 5, "run_call")
			req.DistinctFromOperationId = on.operation
			_, err := r.Actions.PreviewAction(ctx, &oncewardv1.PreviewActionRequest{Request: req})
			return err
		}, "OPERATION_NOT_FOUND"},
		{"ActionService.GetOperation", everyone, func(ctx context.Context, r *apptest.Replica, on subject) error {
			_, err := r.Actions.GetOperation(ctx, &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: on.operation}})
			return err
		}, "OPERATION_NOT_FOUND"},
		{"ActionService.ListOperations", everyone, func(ctx context.Context, r *apptest.Replica, _ subject) error {
			_, err := r.Actions.ListOperations(ctx, &oncewardv1.ListOperationsRequest{})
			return err
		}, ""},
		{"ActionService.WatchOperation", everyone, func(ctx context.Context, r *apptest.Replica, on subject) error {
			stream, err := r.Actions.WatchOperation(ctx, &oncewardv1.WatchOperationRequest{OperationId: on.operation})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}, "OPERATION_NOT_FOUND"},
		{"ActionService.CancelOperation", "agent", func(ctx context.Context, r *apptest.Replica, on subject) error {
			_, err := r.Actions.CancelOperation(ctx, &oncewardv1.CancelOperationRequest{OperationId: on.operation})
			return err
		}, "OPERATION_NOT_FOUND"},
		{"CatalogService.ListActionTypes", everyone, func(ctx context.Context, r *apptest.Replica, _ subject) error {
			_, err := r.Catalog.ListActionTypes(ctx, &oncewardv1.ListActionTypesRequest{})
			return err
		}, ""},
		{"CatalogService.GetActionType", everyone, func(ctx context.Context, r *apptest.Replica, _ subject) error {
			_, err := r.Catalog.GetActionType(ctx, &oncewardv1.GetActionTypeRequest{Name: "notes.insert"})
			return err
		}, ""},
		{"ReviewService.ListReviews", "admin auditor reviewer", func(ctx context.Context, r *apptest.Replica, _ subject) error {
			_, err := r.Reviews.ListReviews(ctx, &oncewardv1.ListReviewsRequest{})
			return err
		}, ""},
		{"ReviewService.ResolveReview", "reviewer", func(ctx context.Context, r *apptest.Replica, on subject) error {
			_, err := r.Reviews.ResolveReview(ctx, &oncewardv1.ResolveReviewRequest{
				ReviewId: on.review, Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}}})
			return err
		}, "REVIEW_NOT_FOUND"},
	}
}

// Every RPC of the contract is in the table, and everything in the table is an
// RPC: the tests below are about all of them.
func TestEveryCallIsInTheTable(t *testing.T) {
	t.Parallel()
	var contract, table []string
	protoregistry.GlobalFiles.RangeFilesByPackage("onceward.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if service.Name() == "AdapterService" {
				continue // others serve it, and we call
			}
			for j := range service.Methods().Len() {
				contract = append(contract, string(service.Name())+"."+string(service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	for _, c := range calls() {
		table = append(table, c.method)
	}
	slices.Sort(contract)
	slices.Sort(table)
	if !slices.Equal(contract, table) {
		t.Errorf("the contract has the calls\n%s\nthe table has\n%s", strings.Join(contract, "\n"), strings.Join(table, "\n"))
	}
}

// Each role may do what is its own and nothing else, for every RPC.
func TestRolesOfEachCall(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	nobody := subject{"01890000-0000-7000-8000-000000000000", "nobody", "01890000-0000-7000-8000-000000000000"}
	check := unchanged(t, w)
	for role := range strings.FieldsSeq(everyone) {
		credential := w.Key(t, "acme", "one-"+role, role)
		for _, c := range calls() {
			err := c.invoke(apptest.As(t.Context(), credential), r, nobody)
			if slices.Contains(strings.Fields(c.roles), role) {
				switch code := status.Code(err); {
				case c.unknown == "" && err != nil, c.unknown != "" && code != codes.NotFound:
					t.Errorf("%s as %s: %v", c.method, role, err)
				}
				continue
			}
			wantPlain(t, apptest.WantReason(t, err, codes.PermissionDenied, "ROLE_REQUIRED").Err())
		}
	}
	check(t)
}

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
		"SQL":             {bearer("Bearer ow_acme' OR '1'='1." + key.ID + ".0"), codes.Unauthenticated, "UNAUTHENTICATED"},
		"revoked":         {bearer("Bearer " + revoked), codes.Unauthenticated, "UNAUTHENTICATED"},
		"expired":         {bearer("Bearer " + expired.Text()), codes.Unauthenticated, "UNAUTHENTICATED"},
		"inactive tenant": {bearer("Bearer " + off), codes.PermissionDenied, "TENANT_INACTIVE"},
	} {
		for _, each := range calls() {
			err := each.invoke(c.credential(t.Context()), r, subject{})
			st := apptest.WantReason(t, err, c.code, c.reason)
			wantPlain(t, err)
			if strings.Contains(st.Message(), key.ID) || strings.Contains(st.Message(), "0000v") {
				t.Errorf("%s: the error repeats the credential: %s", name, st.Message())
			}
			if strings.HasPrefix(name, "wrong") || strings.HasPrefix(name, "unknown") || name == "revoked" || name == "expired" || name == "malformed" {
				messages[st.Message()] = true
			}
		}
	}
	if len(messages) != 1 {
		t.Errorf("the answers tell bad credentials apart: %v", messages)
	}
	check(t)
}
