// Package growth measures what a long history costs: a ledger filled with many
// finished operations of many tenants, beside one that is nearly empty.
//
// The history is copied by SQL from one real action, with the columns that differ
// made anew, so that it has whatever shape the schema has.
package growth
