package campaign

import (
	"context"
)

// database is the Postgres of a campaign, which can be broken.
type database interface {
	OwnerURL() string // of a database that the campaign has to itself
	ServeURL() string // the same, as the serving role
	Address() string  // of the primary, now
	Close()
	// Breaks are the ways in which it can be broken: each breaks it and mends it again
	// before it returns, and does nothing else than that.
	Breaks() map[string]func(context.Context) error
	// OnMove is told where the primary is from now on.
	OnMove(func(address string))
}

// link is one TCP edge between two parties, which can be broken.
type link interface {
	Address() string
	SetUpstream(address string) error
	// Break breaks it in one way and returns what heals it again.
	Break(kind string) (heal func(), err error)
}

// network makes links.
type network interface {
	Open(name, upstream string) (link, error)
	// Kinds are the ways in which a link can be broken.
	Kinds() []string
	Close()
}
