package simulator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/simulator"
)

func TestContractsThatCannotBeSimulated(t *testing.T) {
	type actions = map[string]*definition.Action
	text := "x"
	for want, change := range map[string]func(*definition.Provider, actions){
		"pay/refund.yaml: simulate: is missing": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate = nil
		},
		"pay/refund.yaml: simulate.success.status: is missing": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate.Success = definition.Answer{}
		},
		"pay/refund.yaml: request: only": func(_ *definition.Provider, acts actions) { acts["pay.refund.create"].Request = nil },
		"pay/provider.yaml: http: only":  func(p *definition.Provider, _ actions) { p.HTTP = nil },
		"pay/provider.yaml: http.base_url: ": func(p *definition.Provider, _ actions) {
			p.HTTP.BaseURL = "https://${config.nothing}"
		},
		`pay/refund.yaml: simulate.success.json: id: ${nothing}: at character 1: there is no "nothing" here`: func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate.Success.JSON = map[string]any{"id": "${nothing}"}
		},
		"pay/refund.yaml: simulate.pending: an answer has json or text": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate.Pending.Text = &text
		},
		"pay/refund.yaml: simulate.id: ":        func(_ *definition.Provider, acts actions) { acts["pay.refund.create"].Simulate.ID = "${n" },
		"pay/refund.yaml: simulate.operation: ": func(_ *definition.Provider, acts actions) { acts["pay.refund.create"].Simulate.Operation = "]" },
		"pay/refund.yaml: simulate.taken.header.X: ": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate.Taken = &definition.Answer{Status: 409, Header: map[string]string{"X": "${"}}
		},
		"pay/refund.yaml: simulate.refusal.status: want an HTTP status": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Simulate.Refusal = &definition.Answer{Status: 42}
		},
		"pay/refund.yaml: lookups[0].simulate.some: is missing": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Lookups[0].Item = "body.a[0]"
		},
		"pay/refund.yaml: lookups[1].simulate.find: ": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Lookups[1].Simulate.Find = "item.x"
		},
		"pay/refund.yaml: outcomes[0].if: ": func(_ *definition.Provider, acts actions) {
			acts["pay.refund.create"].Outcomes = []definition.Rule{{If: "x", Is: "ambiguous"}}
		},
		"pay/provider.yaml: outcomes[0].header.X: ": func(p *definition.Provider, _ actions) {
			p.Outcomes[0].Header = map[string]string{"X": "("}
		},
		"pay/provider.yaml: errors.code: ":     func(p *definition.Provider, _ actions) { p.Errors.Code = "item" },
		"pay/provider.yaml: errors.simulate: ": func(p *definition.Provider, _ actions) { p.Errors.Simulate = 1.5 },
		"pay/provider.yaml: keys: the simulator finds no place with the key in pay.refund.create": func(p *definition.Provider, _ actions) {
			p.Keys.Place = "template"
		},
		"pay/provider.yaml: keys.alphabet: ": func(p *definition.Provider, _ actions) { p.Keys.Alphabet = "[" },
		"pay/provider.yaml: http.auth.hmac.algorithm: ": func(p *definition.Provider, _ actions) {
			p.HTTP.Auth = &definition.Auth{HMAC: &definition.HMACAuth{Algorithm: "md5"}}
		},
		"pay/provider.yaml: http.auth.oauth2.token_url: ": func(p *definition.Provider, _ actions) {
			p.HTTP.Auth = &definition.Auth{OAuth2: &definition.OAuth2Auth{TokenURL: "https://x.example"}}
		},
	} {
		p, acts := load(t, "pay")
		byType := actions{}
		for _, a := range acts {
			byType[a.Type] = a
		}
		change(p, byType)
		_, err := simulator.New(p, acts, simulator.Options{})
		var faults *definition.FaultsError
		if !errors.As(err, &faults) {
			t.Errorf("%s: %v", want, err)
			continue
		}
		said := strings.NewReplacer(":1:1", "").Replace(faults.Error())
		if !strings.Contains(said, want) {
			t.Errorf("%s\nis not in\n%s", want, said)
		}
	}
	p, _ := load(t, "pay")
	if _, err := simulator.New(p, nil, simulator.Options{}); err == nil {
		t.Error("a provider without action types was taken")
	}
}
