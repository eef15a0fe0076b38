// Package replica runs one Onceward process for a campaign ([Run]), and is the
// campaign's hand on it ([Process]): start, arm a crash point, kill, pause, stop in
// order.
//
// The process is the chaos program itself, executed again. It takes commands on its
// standard input and ends when that ends, so that none is left when the campaign
// dies. What it says goes to a log of its own.
//
// The package must never know what is asked of a replica, or what is broken around
// it. It imports internal/app and what an app is made of.
package replica
