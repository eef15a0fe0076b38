// Package actionstest is the definition of an adapter, as a test: [Run] walks
// every ugly path of the design with it, through a whole Onceward, against a
// provider that misbehaves, and fails where the target ends up with two effects
// or anybody is told what is not so.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestConformance(t *testing.T) {
//		t.Parallel()
//		actionstest.Run(t, proof.Subject{
//			Open:      open, // the adapter, and a fake provider for it
//			Arguments: json.RawMessage(`{"charge_id":"ch_1","amount":4900,"currency":"usd"}`),
//		})
//	}
//
// What is walked and judged is package proof's; docs/verify.md explains the
// verdicts. The package must never know a particular adapter, and only tests
// import it. It imports proof and what gives a test a ledger.
package actionstest
