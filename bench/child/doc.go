// Package child runs a server in a process of its own, so that what is measured
// does not share a heap and a scheduler with who measures.
//
// Both sides speak lines: the server says "ready ADDRESS", and then answers each
// line on its standard input with one line. It ends when its standard input
// does, so that it never outlives who started it.
//
// It must know nothing of what is served. It imports the standard library only.
package child
