package campaign

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/edge"
)

// Each fault of an edge disturbs a conversation that goes on over a connection that is
// kept, as all are here: a fault that is counted and does nothing would be a lie.
func TestEdgeFaultsDisturb(t *testing.T) {
	t.Parallel()
	edges, err := edge.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(edges.Close)
	address := echo(t)
	for _, kind := range append(edge.Kinds(), "") {
		for coin := range 3 { // each side
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				x, err := edges.Open(t.Name(), address)
				if err != nil {
					t.Fatal(err)
				}
				conn, err := net.Dial("tcp", x.Address())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				if err := converse(conn); err != nil {
					t.Fatalf("before the fault: %v", err)
				}
				if kind != "" {
					heal, err := breakEdge(x, kind, coin)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(heal)
				}
				err = nil
				for i := 0; i < 10 && err == nil; i++ {
					err = converse(conn)
				}
				if (err != nil) != (kind != "") {
					t.Errorf("what goes wrong in the conversation: %v", err)
				}
			})
		}
	}
}

// converse sends some bytes and waits for them to come back: in one piece, and soon.
func converse(conn net.Conn) error {
	const soon = 90 * time.Millisecond
	said, began := bytes.Repeat([]byte("x"), 4000), time.Now()
	if err := conn.SetDeadline(began.Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(said); err != nil {
		return err
	}
	reads, got := 0, 0
	for got < len(said) {
		n, err := conn.Read(said)
		if err != nil {
			return err
		}
		reads, got = reads+1, got+n
	}
	switch {
	case reads > 5:
		return errors.New("it came in pieces")
	case time.Since(began) > soon:
		return errors.New("it took long")
	}
	return nil
}

// echo serves whoever connects what they send.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}
