// Package laws holds the tests that hold the whole of Onceward to its word: the
// laws of the design (TestLawNN), the faults that other systems are known for
// (TestReportNN, by their number in the collection of reports), and what callers
// may send and call (bad input, roles, tenants). It has no code of its own.
//
// A test judges by what the target holds and by what the ledger has on record,
// and only then by replies. Some laws have further tests beside the code that
// keeps them: search for the name.
//
// Reports that concern parts which do not exist yet have no test here: 9
// (intents), 41 (bloat under a held snapshot), 49 (webhooks) and 51 (SMTP).
// Report 3 (HTTP/2 resets) is tested where requests are sent, in
// actions/httpaction: the sender speaks HTTP/1.1 only, so that there is no
// stream to reset.
//
// The package must never reach into a part where the API, the ledger's store
// or the provider's witness will do. It imports internal/apptest and what that
// one is made of.
package laws
