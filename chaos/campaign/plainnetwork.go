package campaign

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// plainNetwork forwards bytes by itself: it can cut and it can delay.
type plainNetwork struct {
	mu    sync.Mutex
	links []*plainLink
}

func (n *plainNetwork) Kinds() []string { return []string{"cut", "latency"} }

func (n *plainNetwork) Open(_, upstream string) (link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &plainLink{listener: listener, conns: map[net.Conn]bool{}}
	l.upstream.Store(&upstream)
	n.mu.Lock()
	n.links = append(n.links, l)
	n.mu.Unlock()
	go l.accept()
	return l, nil
}

func (n *plainNetwork) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		_ = l.listener.Close()
		l.cut()
	}
}

type plainLink struct {
	listener net.Listener
	upstream atomic.Pointer[string]
	delay    atomic.Int64
	closed   atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (l *plainLink) Address() string { return l.listener.Addr().String() }

func (l *plainLink) SetUpstream(address string) error {
	l.upstream.Store(&address)
	return nil
}

func (l *plainLink) Break(kind string) (func(), error) {
	switch kind {
	case "cut":
		l.closed.Store(true)
		l.cut()
		return func() { l.closed.Store(false) }, nil
	case "latency":
		l.delay.Store(int64(edgeDelay))
		return func() { l.delay.Store(0) }, nil
	default:
		return nil, fmt.Errorf("campaign: no such fault of a link: %s", kind)
	}
}

func (l *plainLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *plainLink) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		if l.closed.Load() {
			_ = from.Close()
			continue
		}
		go l.forward(from)
	}
}

func (l *plainLink) forward(from net.Conn) {
	to, err := net.DialTimeout("tcp", *l.upstream.Load(), time.Second)
	if err != nil {
		_ = from.Close()
		return
	}
	l.mu.Lock()
	l.conns[from], l.conns[to] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(to, from) })
	both.Go(func() { l.copy(from, to) })
	both.Wait()
	l.mu.Lock()
	delete(l.conns, from)
	delete(l.conns, to)
	l.mu.Unlock()
}

func (l *plainLink) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			time.Sleep(time.Duration(l.delay.Load()))
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
