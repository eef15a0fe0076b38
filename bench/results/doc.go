// Package results collects what the rounds measured and says it in two ways: as
// results.json, with every sample, and as the tables of docs/performance.md.
//
// It must know no contestant but by the names of figures. It imports contest and
// machine.
package results
