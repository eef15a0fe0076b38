// Package planners lets planners with every bad habit loose on three replicas
// under a policy that has everything, and counts afterwards: what the target
// holds, what the budgets say, what the audit record says of every refusal.
//
// It is tests and nothing else.
package planners
