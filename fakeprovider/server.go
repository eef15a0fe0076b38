package fakeprovider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a provider on a TCP port. Make it with [Start]; it is safe for
// concurrent use.
type Server struct {
	http *http.Server
	addr string
	done chan struct{} // closed by Close

	work sync.WaitGroup // accept loops, requests, planned resumptions

	mu     sync.Mutex
	ln     net.Listener // nil while paused
	pauses int          // calls of Pause, so that a planned resumption knows its own
	closed bool
	idle   map[net.Conn]bool // connections on which no request is worked on
}

// Start serves a provider on an address; the empty address is a free port on
// 127.0.0.1. The caller must Close the server.
func Start(p *Provider, addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fakeprovider: %w", err)
	}
	s := &Server{addr: ln.Addr().String(), done: make(chan struct{}), idle: map[net.Conn]bool{}}
	s.http = &http.Server{
		Handler:           s.handler(p),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState:         s.connState,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), doneKey{}, s.done)
		},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accept(ln)
	return s, nil
}

// doneKey carries the server's end to the requests.
type doneKey struct{}

// serverDone is closed when the server of a request closes; nil where the
// handler runs on another server.
func serverDone(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(doneKey{}).(chan struct{})
	return done
}

func (s *Server) handler(p *Provider) http.Handler {
	provider := p.Handler()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.work.Add(1)
		}
		s.mu.Unlock()
		if closed {
			panic(http.ErrAbortHandler)
		}
		defer s.work.Done()
		if r.Method == http.MethodPost && r.URL.Path == "/_fake/pause" {
			s.handlePause(rw, r)
			return
		}
		provider.ServeHTTP(rw, r)
	})
}

// accept serves ln until it is closed. The caller holds the lock.
func (s *Server) accept(ln net.Listener) {
	s.ln = ln
	s.work.Go(func() {
		_ = s.http.Serve(ln) // always an error: the listener was closed
	})
}

// Addr is the host and port; it stays the same over Pause and Resume.
func (s *Server) Addr() string { return s.addr }

// URL is the base URL without a slash at its end.
func (s *Server) URL() string { return "http://" + s.addr }

// Pause closes the listener and the idle connections, so that every new
// attempt to connect is refused and no kept connection lets one in. Requests
// that are being worked on go on. Pausing twice is harmless; a pause ends the
// plan of an earlier one over HTTP to resume by itself.
func (s *Server) Pause() error {
	_, err := s.pause()
	return err
}

// pause returns the number of the pause.
func (s *Server) pause() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses++
	if s.ln == nil {
		return s.pauses, nil
	}
	err := s.ln.Close()
	s.ln = nil
	for conn := range s.idle {
		_ = conn.Close() // it may be gone already
	}
	return s.pauses, err
}

// Resume listens on the same port again. It fails when another program has
// taken the port meanwhile, and on a closed server. Resuming a server that is
// not paused is harmless.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume()
}

// resume is Resume for a caller that holds the lock.
func (s *Server) resume() error {
	if s.closed {
		return errors.New("fakeprovider: the server is closed")
	}
	if s.ln != nil {
		return nil
	}
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("fakeprovider: %w", err)
	}
	s.accept(ln)
	return nil
}

// Close ends the listener and all connections, gives up the requests that are
// held or delayed (they apply nothing any more), and returns when the last is
// gone. Closing twice is harmless. The provider keeps its data.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	err := s.http.Close()
	s.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // of a pause that net/http had not noticed yet
	}
	return err
}

// connState keeps the set of connections that Pause has to close: those that
// have not begun a request, and those between two.
func (s *Server) connState(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		s.idle[conn] = true
		if s.ln == nil {
			_ = conn.Close() // it became idle during a pause
		}
	default:
		delete(s.idle, conn)
	}
}

// maxPause bounds a pause over HTTP: nobody could end it from outside.
const maxPause = 10 * time.Minute

// handlePause pauses for a time, because the control API itself cannot be
// reached to resume.
func (s *Server) handlePause(rw http.ResponseWriter, r *http.Request) {
	var in struct {
		Seconds float64 `json:"seconds"`
	}
	if !readControl(rw, r, &in) {
		return
	}
	length := time.Duration(in.Seconds * float64(time.Second))
	if in.Seconds <= 0 || in.Seconds > maxPause.Seconds() {
		controlError(rw, http.StatusBadRequest, "seconds must be more than 0 and at most 600")
		return
	}
	number, err := s.pause()
	if err != nil {
		controlError(rw, http.StatusInternalServerError, err.Error())
		return
	}
	s.work.Go(func() { s.resumeAfter(length, number) })
	writeControl(rw, map[string]any{"paused_seconds": in.Seconds})
}

// resumeRetry is the gap between attempts to get a port back that another
// program holds.
const resumeRetry = 100 * time.Millisecond

// resumeAfter resumes unless another pause has begun since.
func (s *Server) resumeAfter(length time.Duration, number int) {
	for wait := length; ; wait = resumeRetry {
		select {
		case <-time.After(wait):
		case <-s.done:
			return
		}
		s.mu.Lock()
		over := s.pauses != number || s.resume() == nil
		s.mu.Unlock()
		if over {
			return
		}
	}
}
