// Package riverrun is River as its documentation shows it: a job that is unique
// by its arguments, worked by the same process, and completed with JobCompleteTx
// in the worker's own transaction with the provider's answer as its output.
//
// River has no call that waits for a job. Here the worker tells the waiting
// caller itself, right after its commit, which is the fastest that can be told
// without lying: River's own completion events come in batches, later.
package riverrun
