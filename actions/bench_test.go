package actions_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
)

// A small request, as most are, and one with nested lists.
const (
	benchSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["charge_id", "amount", "currency"],
  "properties": {
    "charge_id": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9_-]+$"},
    "amount": {"type": "integer", "minimum": 1, "maximum": 999999999999},
    "currency": {"type": "string", "pattern": "^[a-z]{3}$"},
    "reason": {"type": "string", "maxLength": 500},
    "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}}}}
  }
}`
	benchSmall = `{"charge_id":"ch_1010","amount":1250,"currency":"usd","reason":"the customer asked for it"}`
	benchLines = `{"reason": "three lines", "lines": [
  {"sku": "a-1", "count": 2, "price": 12.50}, {"sku": "a-2", "count": 1, "price": 1e2}, {"sku": "ä-3", "count": 9, "price": 0.1}
], "currency": "usd", "charge_id": "ch_1010", "amount": 1250.0}`
)

// BenchmarkArguments is what each request does with its arguments: parse,
// canonicalise, validate, hash.
func BenchmarkArguments(b *testing.B) {
	schema, err := actions.CompileSchema("bench", json.RawMessage(benchSchema))
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{"small": benchSmall, "lines": benchLines} {
		data, advisory := []byte(text), []string{"reason"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				args, err := actions.ParseArguments(data)
				if err != nil {
					b.Fatal(err)
				}
				if err := schema.Validate(args); err != nil {
					b.Fatal(err)
				}
				_ = args.IdentityHash(advisory)
			}
		})
		b.Run(name+"/parse", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := actions.ParseArguments(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/validate", func(b *testing.B) {
			args, err := actions.ParseArguments(data)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := schema.Validate(args); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/identity hash", func(b *testing.B) {
			args, err := actions.ParseArguments(data)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = args.IdentityHash(advisory)
			}
		})
	}
}

func BenchmarkComposeKey(b *testing.B) {
	args, err := actions.ParseArguments([]byte(benchSmall))
	if err != nil {
		b.Fatal(err)
	}
	recipe := actions.Spec{Type: "payments.refund.create", Key: []actions.KeyPart{{Name: "tenant", From: "tenant"}, {Name: "charge", From: "arguments.charge_id"}}}
	for name, spec := range map[string]actions.Spec{"recipe": recipe, "run and step": {Type: "payments.refund.create", Window: time.Hour}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := actions.ComposeKey(spec, actions.KeyInput{Tenant: "acme", Run: "run_8f2", Step: "refund:1", Arguments: args}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
