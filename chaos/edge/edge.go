package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

const (
	// patience is how long Toxiproxy may take for one step. Its own bound for
	// bytes that nobody takes is 5 s.
	patience = 8 * time.Second
	// portPatience is how long a port of ours may be somebody else's after a cut.
	portPatience = 10 * time.Second
)

// ErrClosed means that the edge was closed.
var ErrClosed = errors.New("edge: closed")

// errStuck means that Toxiproxy did not come back.
var errStuck = errors.New("edge: toxiproxy is stuck")

// Edges are the edges of one set-up. They are safe for concurrent use.
type Edges struct {
	log    *slog.Logger
	server *toxiproxy.ApiServer // its log and its metrics; it listens nowhere

	mu     sync.Mutex
	open   []*Edge
	closed bool
}

// New makes a set without edges. Nil discards the log.
func New(log *slog.Logger) (*Edges, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// One of Toxiproxy's faults writes every step to zerolog's own logger, past the
	// one that is given here.
	zerolog.SetGlobalLevel(zerolog.Disabled)
	toxics.Register(truncateType, new(truncation))
	return &Edges{log: log, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}, nil
}

// Close closes all edges with their connections.
func (e *Edges) Close() {
	e.mu.Lock()
	e.closed = true
	open := e.open
	e.open = nil
	e.mu.Unlock()
	for _, x := range open {
		x.close()
	}
}

// Open makes an edge to an upstream ("127.0.0.1:5432"), which need not be there
// yet. The name is for logs.
func (e *Edges) Open(name, upstream string) (*Edge, error) {
	if _, _, err := net.SplitHostPort(upstream); err != nil {
		return nil, fmt.Errorf("edge %s: upstream: %w", name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	x := &Edge{
		name: name, log: e.log.With("edge", name), server: e.server,
		upstream: upstream, active: map[int][]toxic{}, cuts: map[int]bool{},
	}
	proxy := toxiproxy.NewProxy(e.server, name, "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("edge %s: %w", name, err)
	}
	x.proxy, x.address = proxy, proxy.Listen
	e.open = append(e.open, x)
	return x, nil
}

// Edge is a TCP address that leads to an upstream, more or less. It is safe for
// concurrent use; its steps are made one after the other.
type Edge struct {
	name    string
	address string
	log     *slog.Logger
	server  *toxiproxy.ApiServer

	mu       sync.Mutex
	proxy    *toxiproxy.Proxy
	upstream string
	next     int
	active   map[int][]toxic // faults by number
	cuts     map[int]bool    // those that keep the listener closed
	closed   bool
}

// Address is where the edge listens, for all its life: "127.0.0.1:port".
func (x *Edge) Address() string { return x.address }

// SetUpstream moves the edge to another upstream. Connections to the old one are
// closed, as whoever moves a virtual address does. The faults stay.
func (x *Edge) SetUpstream(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("edge %s: upstream: %w", x.name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return ErrClosed
	}
	x.upstream = address
	x.log.Info("upstream moves", "to", address)
	// While it is cut there is nothing to close; what is closed here, Start opens.
	if err := x.stop(); err != nil {
		return err
	}
	if x.proxy.Upstream != address { // a new proxy has it already, and may be reading it
		x.proxy.Upstream = address
	}
	return x.startUnlessCut()
}

// Apply lets a fault begin on open connections and new ones. Faults add up. heal ends
// it, waits until it has ended, and may be called more than once; what it cannot
// mend it tells the log.
//
// Toxiproxy waits until a connection takes notice of a new fault, and one whose peer
// went away while bytes were under way never does. Then, after 8 s, the edge goes on
// with a new proxy on the same address: connections from before keep what they had
// until they end.
func (x *Edge) Apply(f Fault) (heal func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, ErrClosed
	}
	x.next++
	id := x.next
	if f.Kind == Cut {
		x.cuts[id] = true
		err = x.stop()
	} else {
		var toxics []toxic
		if toxics, err = f.toxics(id); err != nil {
			return nil, err
		}
		x.active[id] = toxics
		err = x.add(toxics)
	}
	if err != nil {
		delete(x.cuts, id)
		delete(x.active, id)
		return nil, fmt.Errorf("edge %s: %s: %w", x.name, f, err)
	}
	x.log.Info("fault begins", "fault", f.String())
	return sync.OnceFunc(func() { x.heal(id, f) }), nil
}

func (x *Edge) heal(id int, f Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	toxics := x.active[id]
	delete(x.active, id)
	var err error
	if x.cuts[id] {
		delete(x.cuts, id)
		err = x.startUnlessCut()
	} else {
		err = x.remove(toxics)
	}
	if err != nil {
		x.log.Error("a fault could not be healed", "fault", f.String(), "error", err)
		return
	}
	x.log.Info("fault ends", "fault", f.String())
}

func (x *Edge) add(toxics []toxic) error {
	err := within(func(proxy *toxiproxy.Proxy) error {
		for _, t := range toxics {
			if _, err := proxy.Toxics.AddToxicJson(bytes.NewReader(t.json())); err != nil {
				return err
			}
		}
		return nil
	}, x.proxy)
	return x.replaceIfStuck(err)
}

func (x *Edge) remove(toxics []toxic) error {
	err := within(func(proxy *toxiproxy.Proxy) error {
		for _, t := range toxics {
			if err := proxy.Toxics.RemoveToxic(context.Background(), t.Name); err != nil {
				return err
			}
		}
		return nil
	}, x.proxy)
	return x.replaceIfStuck(err)
}

// stop closes the listener and all connections.
func (x *Edge) stop() error {
	err := within(func(proxy *toxiproxy.Proxy) error { proxy.Stop(); return nil }, x.proxy)
	return x.replaceIfStuck(err)
}

// startUnlessCut opens the listener, when no cut keeps it closed. Its port was free
// for a while, so somebody else may have it for a moment.
func (x *Edge) startUnlessCut() error {
	if len(x.cuts) > 0 || x.closed {
		return nil
	}
	deadline := time.Now().Add(portPatience)
	for {
		err := x.proxy.Start()
		if err == nil || errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("listening again on %s: %w", x.address, err)
		}
		time.Sleep(10 * time.Millisecond) // nobody tells when a port is free
	}
}

// replaceIfStuck goes on with a new proxy, in which no connection is stuck, and with
// the faults that are active.
func (x *Edge) replaceIfStuck(err error) error {
	if !errors.Is(err, errStuck) {
		return err
	}
	x.log.Warn("toxiproxy is stuck, going on with a new proxy")
	go x.proxy.Stop() // closes its listener, and its connections if it ever comes to that
	x.proxy = toxiproxy.NewProxy(x.server, x.name, x.address, x.upstream)
	for _, id := range slices.Sorted(maps.Keys(x.active)) {
		for _, t := range x.active[id] {
			if _, err := x.proxy.Toxics.AddToxicJson(bytes.NewReader(t.json())); err != nil {
				return err
			}
		}
	}
	return x.startUnlessCut()
}

func (x *Edge) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if err := within(func(proxy *toxiproxy.Proxy) error { proxy.Stop(); return nil }, x.proxy); err != nil {
		x.log.Warn("closing", "error", err)
	}
}

// within makes one step of Toxiproxy, and no longer than patience.
func within(step func(*toxiproxy.Proxy) error, proxy *toxiproxy.Proxy) error {
	done := make(chan error, 1)
	go func() { done <- step(proxy) }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errStuck
	}
}
