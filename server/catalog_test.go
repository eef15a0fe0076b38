package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// described is an adapter that is only looked at: any other call of it panics.
type described struct {
	actions.Adapter
	spec actions.Spec
}

func (d described) Spec() actions.Spec { return d.spec }

// Planners see what refuses them: what an action costs, which goals it serves, and
// what is not shown to them.
func TestCatalogueShowsGoals(t *testing.T) {
	t.Parallel()
	plain := actions.Spec{
		Type: "mail.send", Version: "1", Schema: []byte(`{"type":"object"}`), Contract: actions.Contract{Provider: "mail", Version: "1"},
	}
	rich := plain
	rich.Type = "pay.refund"
	rich.Spending = actions.Spending{Amount: "minor_to_decimal(args.amount, 2)", Currency: "args.currency", Counterparty: "args.to"}
	rich.Intents = []actions.Intent{
		{Name: "order_refund", Parts: []actions.KeyPart{{Name: "shop", From: "arguments.shop"}, {Name: "order", From: "arguments.order.id"}}, Quiet: time.Hour},
		{Name: "goodwill", Parts: []actions.KeyPart{{Name: "customer", From: "arguments.customer"}}},
	}
	rich.SensitiveArgs, rich.SensitiveReceipt = []string{"card.number", "note"}, []string{"iban"}
	registry, err := actions.NewRegistry(described{spec: plain}, described{spec: rich})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Options: Options{Registry: registry, Log: quiet()}}
	resp, err := s.GetActionType(as(t.Context(), policy.Agent), &oncewardv1.GetActionTypeRequest{Name: "pay.refund"})
	if err != nil {
		t.Fatal(err)
	}
	got := resp.GetActionType()
	want := &oncewardv1.ActionType{
		Spending: &oncewardv1.Spending{Amount: "minor_to_decimal(args.amount, 2)", Currency: "args.currency", Counterparty: "args.to"},
		Intents: []*oncewardv1.Intent{
			{Name: "order_refund", Parts: []*oncewardv1.KeyPart{{Name: "shop", From: "arguments.shop"}, {Name: "order", From: "arguments.order.id"}}, Quiet: durationpb.New(time.Hour)},
			{Name: "goodwill", Parts: []*oncewardv1.KeyPart{{Name: "customer", From: "arguments.customer"}}},
		},
		SensitiveArguments: []string{"card.number", "note"}, SensitiveReceiptFields: []string{"iban"},
	}
	shown := &oncewardv1.ActionType{
		Spending: got.GetSpending(), Intents: got.GetIntents(), SensitiveArguments: got.GetSensitiveArguments(), SensitiveReceiptFields: got.GetSensitiveReceiptFields(),
	}
	if !proto.Equal(shown, want) {
		t.Errorf("the catalogue shows\n%s\nwant\n%s", prototext.Format(shown), prototext.Format(want))
	}
	list, err := s.ListActionTypes(as(t.Context(), policy.Auditor), &oncewardv1.ListActionTypesRequest{})
	if err != nil || len(list.GetActionTypes()) != 2 || !proto.Equal(list.GetActionTypes()[1], got) {
		t.Errorf("the list has %s, %v", list, err)
	} else if none := list.GetActionTypes()[0]; none.GetSpending() != nil || none.GetIntents() != nil || none.GetSensitiveArguments() != nil {
		t.Errorf("an action type without goals shows %s", none)
	}
	if _, err = s.GetActionType(as(t.Context(), policy.Agent), &oncewardv1.GetActionTypeRequest{Name: strings.Repeat("x", 500)}); err == nil || len(err.Error()) > 300 {
		t.Errorf("an unknown one: %v", err)
	}
}
