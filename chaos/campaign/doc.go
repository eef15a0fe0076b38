// Package campaign runs replicas of Onceward under faults of every kind while many
// callers ask for the same actions, and hands what it saw to package judge.
//
// One seed gives one schedule: which action is asked for when, by whom and how, what
// the provider does about each action, and which fault comes when, to whom and for how
// long ([goalOf], [planOf], [monkey]). It does not fix how processes and packets
// interleave: a seed repeats the schedule, not the run.
//
// The package must never judge by what replicas say of themselves alone. It imports
// the packages of this module and internal/… of the main one, as a test does.
package campaign
