package policy

import (
	"testing"

	"github.com/onceward/onceward/actions"
)

func TestDecide(t *testing.T) {
	agent := Principal{Tenant: "acme", Actor: "planner", Roles: []Role{Agent}}
	tests := []struct {
		name string
		p    Principal
		spec actions.Spec
		want Effect
	}{
		{"nobody", Principal{}, actions.Spec{}, Deny},
		{"no tenant", Principal{Actor: "a", Roles: []Role{Agent}}, actions.Spec{}, Deny},
		{"no actor", Principal{Tenant: "t", Roles: []Role{Agent}}, actions.Spec{}, Deny},
		{"no role", Principal{Tenant: "t", Actor: "a"}, actions.Spec{}, Deny},
		{"every other role", Principal{Tenant: "t", Actor: "a", Roles: []Role{Reviewer, Auditor, Admin}}, actions.Spec{}, Deny},
		{"agent", agent, actions.Spec{}, Allow},
		{"agent, approval", agent, actions.Spec{RequiresApproval: true}, RequireApproval},
	}
	for _, test := range tests {
		action, err := Compile(test.spec)
		if err != nil {
			t.Fatal(err)
		}
		got := AllowAll().For(test.p.Tenant).Decide(&Request{Principal: test.p, Action: action})
		if got.Effect != test.want || got.Rule == "" || got.Reason == "" {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
	if (Decision{}).Effect != Deny {
		t.Error("the zero decision does not deny")
	}
}

func TestMayDecide(t *testing.T) {
	rita := Principal{Tenant: "acme", Actor: "rita", Roles: []Role{Reviewer, Agent}}
	if MayDecide(rita, "rita").Effect != Deny {
		t.Error("the requester may decide")
	}
	if MayDecide(rita, "planner").Effect != Allow {
		t.Error("a reviewer may not decide")
	}
	if MayDecide(Principal{Tenant: "acme", Actor: "adam", Roles: []Role{Admin, Agent, Auditor}}, "planner").Effect != Deny {
		t.Error("an admin may decide")
	}
}
