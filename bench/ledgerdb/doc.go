// Package ledgerdb makes a database with Onceward's schema, a tenant, its API key
// and a serving role, as an operator would.
//
// It must know nothing of measuring but contest.Env.
package ledgerdb
