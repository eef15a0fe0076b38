package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/actionstest"
	"github.com/onceward/onceward/actions/grpcaction"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/proof"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const good = `{"member_id":"mb_7","order_id":"or_1","order_total":4999,"points":49,"note":"first order"}`

func granting(arguments string) *oncewardv1.RequestActionRequest {
	return apptest.Waiting(&oncewardv1.RequestActionRequest{
		ActionType:    actionType,
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments},
	}, apptest.Patience)
}

// world is an Onceward in this process, with the adapter in another one and the
// provider in this one again.
func world(t *testing.T) (*apptest.World, *apptest.Replica, *child) {
	t.Helper()
	w := apptest.New(t, apptest.Options{Provider: loyaltyProvider()})
	c, err := startChild(t.Output(), t.TempDir(), "-listen", ownAddress(), "-provider-url", w.ProviderServer.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	adapter, client, err := connect(t.Context(), grpcaction.Options{Address: c.address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	w.Adapters = []actions.Adapter{adapter}
	return w, w.Start(t, nil), c
}

// TestThroughOnceward: the provider's first answer is lost; one grant, its
// receipt, replays, refusals.
func TestThroughOnceward(t *testing.T) {
	t.Parallel()
	w, onceward, _ := world(t)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})

	first := w.AskIn(t, onceward, granting(good), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
	id := first.GetOperation().GetId()
	w.WantOneEffect(t, id)
	if got, want := first.GetOperation().GetReceipt().GetJson(), `{"id":"gr_1","member_id":"mb_7","points":49}`; got != want {
		t.Errorf("receipt %s, want %s", got, want)
	}
	second := w.Ask(t, onceward, granting(strings.Replace(good, "first order", "said in other words", 1)))
	if !second.GetReplayed() || second.GetOperation().GetReceipt().GetJson() != first.GetOperation().GetReceipt().GetJson() {
		t.Errorf("the second request got %v, want the first's receipt as a replay", second)
	}
	_, err := w.Try(t.Context(), onceward, granting(strings.Replace(good, `"points":49`, `"points":48`, 1)))
	apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")

	tooMany := w.AskIn(t, onceward, granting(`{"member_id":"mb_7","order_id":"or_2","order_total":4999,"points":50}`), oncewardv1.OperationState_OPERATION_STATE_FAILED)
	failure := tooMany.GetOperation().GetFailure()
	if !failure.GetCorrectable() || failure.GetCode() != "too_many_points" || failure.GetViolations()[0].GetField() != "arguments.points" {
		t.Errorf("refused with %v", failure)
	}
	nobody := w.AskIn(t, onceward, granting(`{"member_id":"mb_nobody","order_id":"or_3","order_total":4999,"points":1}`), oncewardv1.OperationState_OPERATION_STATE_FAILED)
	if code := nobody.GetOperation().GetFailure().GetCode(); code != "unknown_member" {
		t.Errorf("refused with %s", code)
	}
	w.WantEffects(t, 1)
}

// TestAdapterKilled: the adapter dies after the provider has applied a grant and
// before anybody knows. Another process of it finds the grant.
func TestAdapterKilled(t *testing.T) {
	t.Parallel()
	w, onceward, c := world(t)
	gate := fakeprovider.NewGate()
	defer gate.Release()
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.None, HoldAfter: gate})
	id := w.Ask(t, onceward, apptest.Waiting(granting(good), 0)).GetOperation().GetId()
	<-gate.Reached()
	c.kill()
	gate.Release()
	w.WaitFor(t, "acme", id, ledger.Unknown)

	again, err := startChild(t.Output(), t.TempDir(), "-listen", c.address, "-provider-url", w.ProviderServer.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.kill)
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	w.WantOneEffect(t, id)
}

// TestConformance: an adapter in another process is an adapter like any other.
func TestConformance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	actionstest.Run(t, proof.Subject{
		Arguments: json.RawMessage(good),
		Secrets:   []string{token},
		Open: func(ctx context.Context, _ proof.Env) (actions.Adapter, proof.Target, error) {
			fake, err := proof.StartFake(loyaltyProvider())
			if err != nil {
				return nil, nil, err
			}
			c, err := startChild(io.Discard, dir, "-listen", "127.0.0.1:0", "-provider-url", fake.URL())
			if err != nil {
				return nil, nil, errors.Join(err, fake.Close())
			}
			adapter, client, err := connect(ctx, grpcaction.Options{Address: c.address})
			if err != nil {
				c.kill()
				return nil, nil, errors.Join(err, fake.Close())
			}
			return adapter, &target{fake, c, client}, nil
		},
	})
}

// target is a fake provider with the adapter process that writes to it.
type target struct {
	*proof.Fake
	child  *child
	client *grpcaction.Client
}

func (t *target) Close() error {
	err := t.client.Close()
	t.child.kill()
	return errors.Join(err, t.Fake.Close())
}

// TestServing: health and reflection are on, and SIGTERM ends it in order.
func TestServing(t *testing.T) {
	t.Parallel()
	c, err := startChild(t.Output(), t.TempDir(), "-listen", "127.0.0.1:0", "-provider-url", "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	_, client, err := connect(t.Context(), grpcaction.Options{Address: c.address})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Health(t.Context()); err != nil {
		t.Error(err)
	}
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: oncewardv1.AdapterService_ServiceDesc.ServiceName,
	}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || answer.GetFileDescriptorResponse() == nil {
		t.Errorf("reflection: %v, %v", answer, err)
	}
	_ = stream.CloseSend() // the answer was the point
	if err := c.terminate(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.exited:
	case <-time.After(apptest.Patience):
		t.Error("it does not end")
	}
}

func TestCommandLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, line := range map[string]string{
		"-provider-url and -token-file": "",
		"unexpected argument":           "-provider-url http://127.0.0.1:1 -token-file t serve",
		"want scheme://host":            "-provider-url loyalty -token-file t",
		"is not loopback":               "-provider-url http://127.0.0.1:1 -token-file t -listen 0.0.0.0:0",
		"go together":                   "-provider-url http://127.0.0.1:1 -token-file t -tls-cert a.pem",
		"-tls-cert":                     "-provider-url http://127.0.0.1:1 -token-file t -tls-cert /no/a.pem -tls-key /no/b.pem -client-ca /no/c.pem",
	} {
		if err := run(t.Context(), strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}
