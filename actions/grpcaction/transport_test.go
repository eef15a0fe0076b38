package grpcaction

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// TestEveryErrorIsDoubt: no status proves anything once a stream was opened.
func TestEveryErrorIsDoubt(t *testing.T) {
	t.Parallel()
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
				return nil, status.Error(code, "said after applying")
			}}
			address := serve(t, p)
			o := adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`))
			if o.Kind != actions.Ambiguous || p.executes() != 1 {
				t.Errorf("got %s by %d calls, want ambiguous by one", shownOutcome(o), p.executes())
			}
			if !strings.Contains(o.Failure.Evidence, code.String()) || !strings.Contains(o.Failure.Evidence, "may have left") {
				t.Errorf("evidence %q", o.Failure.Evidence)
			}
		})
	}
}

// TestErrorsThatBringAnOutcome: a refusal can be attached to a status; whatever
// claims more, or claims twice, is doubt.
func TestErrorsThatBringAnOutcome(t *testing.T) {
	t.Parallel()
	claim := func(k oncewardv1.OutcomeKind) protoadapt.MessageV1 {
		return protoadapt.MessageV1Of(&oncewardv1.Outcome{Kind: k, Failure: &oncewardv1.Failure{Code: "overloaded"}})
	}
	for name, tt := range map[string]struct {
		details []protoadapt.MessageV1
		want    actions.Kind
	}{
		"rejected":     {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED)}, actions.Rejected},
		"not applied":  {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED)}, actions.NotApplied},
		"rate limited": {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_RATE_LIMITED)}, actions.RateLimited},
		"with another detail": {[]protoadapt.MessageV1{
			protoadapt.MessageV1Of(&oncewardv1.DescribeRequest{}), claim(oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED),
		}, actions.Rejected},
		"applied, and yet an error":   {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED)}, actions.Ambiguous},
		"accepted, and yet an error":  {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_ACCEPTED)}, actions.Ambiguous},
		"unspecified":                 {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_UNSPECIFIED)}, actions.Ambiguous},
		"two outcomes":                {[]protoadapt.MessageV1{claim(oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED), claim(oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED)}, actions.Ambiguous},
		"an answer, but no *Outcome*": {[]protoadapt.MessageV1{protoadapt.MessageV1Of(answerOf(&oncewardv1.Outcome{Kind: 8}))}, actions.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
				s, err := status.New(codes.ResourceExhausted, "no").WithDetails(tt.details...)
				if err != nil {
					return nil, err
				}
				return nil, s.Err()
			}}
			address := serve(t, p)
			o := adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`))
			if o.Kind != tt.want || p.executes() != 1 {
				t.Errorf("got %s by %d calls, want %s by one", shownOutcome(o), p.executes(), tt.want)
			}
		})
	}
}

// TestNotSent: where no stream was opened, that is proof.
func TestNotSent(t *testing.T) {
	t.Parallel()
	soon := Options{ConnectTimeout: 100 * time.Millisecond}
	for name, address := range map[string]string{
		"nothing listens":              "127.0.0.1:1",
		"it accepts and says nothing":  talkTo(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
		"it hangs up":                  talkTo(t, func(net.Conn) {}),
		"it speaks another language":   talkTo(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }),
		"a name that is not this host": "nowhere.localhost.:1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := soon
			o.Address = address
			wantUnsent(t, adapterAt(t, o).Execute(t.Context(), callOf(t, `{}`)))
		})
	}
	t.Run("no time left", func(t *testing.T) {
		t.Parallel()
		p := &peer{}
		address := serve(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		wantUnsent(t, adapterAt(t, Options{Address: address}).Execute(ctx, callOf(t, `{}`)))
		if p.executes() != 0 {
			t.Errorf("%d calls arrived", p.executes())
		}
	})
	t.Run("a closed client", func(t *testing.T) {
		t.Parallel()
		p := &peer{}
		address := serve(t, p)
		a := adapterAt(t, Options{Address: address})
		if err := a.client.Close(); err != nil {
			t.Fatal(err)
		}
		wantUnsent(t, a.Execute(t.Context(), callOf(t, `{}`)))
	})
}

func wantUnsent(t *testing.T, o actions.Outcome) {
	t.Helper()
	if o.Kind != actions.NotApplied || o.Failure.Code != codeUnreachable || !strings.Contains(o.Failure.Evidence, "not sent") {
		t.Errorf("got %s, want not applied, because nothing was sent", shownOutcome(o))
	}
}

// talkTo runs a server that treats each connection as told and then ends it.
func talkTo(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	listener := listen(t)
	var talking sync.WaitGroup
	talking.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			talking.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); talking.Wait() })
	return listener.Addr().String()
}

// TestInDoubt: the request left, and no answer that can be read came back.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context, _ *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t.Run("no answer before the deadline", func(t *testing.T) {
		t.Parallel()
		p := &peer{execute: waits}
		address := serve(t, p)
		a := adapterAt(t, Options{Address: address})
		a.spec.Timeout = 100 * time.Millisecond // nobody else bounds this call
		wantDoubt(t, a.Execute(t.Context(), callOf(t, `{}`)), p, "DeadlineExceeded")
	})
	t.Run("the connection ends after applying", func(t *testing.T) {
		t.Parallel()
		conns := &cutter{}
		p := &peer{execute: func(ctx context.Context, r *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
			conns.cut()
			return waits(ctx, r)
		}}
		wantDoubt(t, adapterAt(t, Options{Address: conns.serve(t, p)}).Execute(t.Context(), callOf(t, `{}`)), p, "Unavailable")
	})
	t.Run("the client is closed in mid-call", func(t *testing.T) {
		t.Parallel()
		var a looker
		p := &peer{execute: func(ctx context.Context, r *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
			_ = a.client.Close()
			return waits(ctx, r)
		}}
		address := serve(t, p)
		a = adapterAt(t, Options{Address: address})
		wantDoubt(t, a.Execute(t.Context(), callOf(t, `{}`)), p, "may have left")
	})
	t.Run("an answer that is too long", func(t *testing.T) {
		t.Parallel()
		p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
			long := applied()
			long.Outcome.Evidence = strings.Repeat("x", minMessageBytes)
			return long, nil
		}}
		address := serve(t, p)
		wantDoubt(t, adapterAt(t, Options{Address: address, MaxMessageBytes: minMessageBytes}).Execute(t.Context(), callOf(t, `{}`)), p, "ResourceExhausted")
	})
	t.Run("a status that is too long", func(t *testing.T) {
		t.Parallel()
		p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
			return nil, status.Error(codes.InvalidArgument, strings.Repeat("x", maxHeaderBytes))
		}}
		address := serve(t, p)
		wantDoubt(t, adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`)), p, "may have left")
	})
	t.Run("a server without the service", func(t *testing.T) {
		t.Parallel()
		address := serve(t, nil)
		o := adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`))
		if o.Kind != actions.Ambiguous || !strings.Contains(o.Failure.Evidence, "Unimplemented") {
			t.Errorf("got %s", shownOutcome(o))
		}
	})
	for name, answers := range map[string][]string{"rubbish": {"<html>"}, "two answers": {"", ""}, "no answer": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
				var request frame
				if err := s.RecvMsg(&request); err != nil {
					return err
				}
				for _, answer := range answers {
					if err := s.SendMsg(frame(answer)); err != nil {
						return err
					}
				}
				return nil
			}))
			listener := listen(t)
			go func() { _ = server.Serve(listener) }() // ends with Stop
			t.Cleanup(server.Stop)
			a := adapterAt(t, Options{Address: listener.Addr().String()})
			if o := a.Execute(t.Context(), callOf(t, `{}`)); o.Kind != actions.Ambiguous {
				t.Errorf("got %s, want ambiguous", shownOutcome(o))
			}
			if f := a.Lookup(t.Context(), actions.Query{Call: callOf(t, `{}`)}); f.Kind != actions.Inconclusive || f.Detail == "" {
				t.Errorf("the look-up found %+v", f)
			}
		})
	}
}

func wantDoubt(t *testing.T, o actions.Outcome, p *peer, evidence string) {
	t.Helper()
	if o.Kind != actions.Ambiguous || p.executes() != 1 || !strings.Contains(o.Failure.Evidence, evidence) {
		t.Errorf("got %s by %d calls, want ambiguous with %q by one", shownOutcome(o), p.executes(), evidence)
	}
}

// TestEmptyAnswer: gRPC OK alone claims nothing.
func TestEmptyAnswer(t *testing.T) {
	t.Parallel()
	p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
		return &oncewardv1.ExecuteResponse{}, nil
	}}
	address := serve(t, p)
	wantDoubt(t, adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`)), p, "UNSPECIFIED")
}

// TestDeadlineIsPassedOn: the adapter knows how long it has.
func TestDeadlineIsPassedOn(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 1)
	p := &peer{execute: func(ctx context.Context, _ *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return applied(), nil
	}}
	address := serve(t, p)
	a := adapterAt(t, Options{Address: address})
	a.spec.Timeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.Execute(ctx, callOf(t, `{}`))
	if got := <-left; got <= 0 || got > patience {
		t.Errorf("the adapter saw %s left, want at most %s", got, patience)
	}
}

// TestLookupsFail: an error is inconclusive, whatever its code.
func TestLookupsFail(t *testing.T) {
	t.Parallel()
	p := &peer{lookup: func(context.Context, *oncewardv1.LookupRequest) (*oncewardv1.LookupResponse, error) {
		return nil, status.Error(codes.NotFound, "no such grant")
	}}
	address := serve(t, p)
	f := adapterAt(t, Options{Address: address}).Lookup(t.Context(), actions.Query{Call: callOf(t, `{}`)})
	if f.Kind != actions.Inconclusive || !strings.Contains(f.Detail, "NotFound") {
		t.Errorf("got %+v", f)
	}
	p.lookup = func(ctx context.Context, _ *oncewardv1.LookupRequest) (*oncewardv1.LookupResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	slow := adapterAt(t, Options{Address: address, LookupTimeout: 50 * time.Millisecond})
	if f = slow.Lookup(t.Context(), actions.Query{Call: callOf(t, `{}`)}); f.Kind != actions.Inconclusive {
		t.Errorf("got %+v", f)
	}
}

// cutter is a listener whose connections can be cut.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *cutter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

func (l *cutter) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *cutter) serve(t *testing.T, p *peer) string {
	t.Helper()
	l.Listener = listen(t)
	server := grpc.NewServer()
	oncewardv1.RegisterAdapterServiceServer(server, p)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String()
}
