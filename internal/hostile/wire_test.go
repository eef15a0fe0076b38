package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip" // it registers itself, as it would for a server that traces to a collector
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
	"github.com/onceward/onceward/server"
)

// limited starts a replica with these limits.
func limited(t *testing.T, w *apptest.World, l server.Limits, connections int) *apptest.Replica {
	t.Helper()
	return w.Start(t, func(c *app.Config) { c.Limits, c.MaxConnections = l, connections })
}

// wantServed fails the test unless each of some well-behaved calls, with a
// connection of their own, is answered.
func wantServed(t *testing.T, w *apptest.World, r *apptest.Replica, run string) {
	t.Helper()
	for i := range 10 {
		resp := w.Ask(t, r, apptest.Note("served", run+strconv.Itoa(i)))
		if resp.GetOperation().GetState() != oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED {
			t.Fatalf("call %d beside the hostile one: %v", i, resp)
		}
	}
}

// intruder is an HTTP/2 connection of somebody who writes frames by hand.
type intruder struct {
	net.Conn
	*http2.Framer
	t      *testing.T
	header bytes.Buffer
	hpack  *hpack.Encoder
}

// intrude connects. hello says whether preface and settings are sent.
func intrude(t *testing.T, r *apptest.Replica, hello bool) *intruder {
	t.Helper()
	var dial net.Dialer
	conn, err := dial.DialContext(t.Context(), "tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(apptest.Patience)); err != nil {
		t.Fatal(err)
	}
	in := &intruder{Conn: conn, Framer: http2.NewFramer(conn, conn), t: t}
	in.hpack = hpack.NewEncoder(&in.header)
	if hello {
		in.must(in.Write([]byte(http2.ClientPreface)))
		in.must(0, in.WriteSettings())
	}
	return in
}

func (in *intruder) must(_ int, err error) {
	in.t.Helper()
	if err != nil {
		in.t.Fatal(err)
	}
}

// fields encodes the headers of a call, and more.
func (in *intruder) fields(more ...hpack.HeaderField) []byte {
	in.header.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: oncewardv1.ActionService_RequestAction_FullMethodName},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, more...) {
		if err := in.hpack.WriteField(f); err != nil {
			in.t.Fatal(err)
		}
	}
	return in.header.Bytes()
}

// call begins a call, with a message of which the first half is sent.
func (in *intruder) call(stream uint32, half int) {
	in.t.Helper()
	in.must(0, in.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: in.fields(), EndHeaders: true}))
	data := make([]byte, 5+half)
	binary.BigEndian.PutUint32(data[1:], uint32(2*half+2))
	in.must(0, in.WriteData(stream, false, data))
}

// ended reads until so many of its calls were ended, and says how many it read
// before the connection was.
func (in *intruder) ended(want int) int {
	in.t.Helper()
	n := 0
	for n < want {
		f, err := in.ReadFrame()
		if err != nil {
			return n
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				in.must(0, in.WriteSettingsAck())
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				in.must(0, in.WritePing(true, f.Data))
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				n++
			}
		}
	}
	return n
}

// closed fails the test unless the server closes the connection.
func (in *intruder) closed() {
	in.t.Helper()
	_, err := io.Copy(io.Discard, in.Conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		in.t.Error("the server keeps the connection")
	}
}

// Who connects and says nothing, or not enough, is shut out; others are served
// meanwhile.
func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{Handshake: 300 * time.Millisecond, Silence: time.Second, Answer: 200 * time.Millisecond, Idle: time.Second}, 0)
	var silent []*intruder
	for range 50 {
		silent = append(silent, intrude(t, r, false))
		prefaced := intrude(t, r, false)
		prefaced.must(prefaced.Write([]byte(http2.ClientPreface)))
		half := intrude(t, r, false) // the preface, a byte at a time and never all of it
		half.must(half.Write([]byte(http2.ClientPreface[:3])))
		part := intrude(t, r, true) // and then a part of a frame
		part.must(part.Write([]byte{0, 0, 99, 1, 4}))
		silent = append(silent, prefaced, half, part, intrude(t, r, true))
	}
	wantServed(t, w, r, "silent")
	for _, in := range silent {
		in.closed()
	}
}

// A message that never ends holds its call for its time and no longer.
func TestMessagesMustArrive(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{Arrival: 400 * time.Millisecond}, 0)
	in := intrude(t, r, true)
	for i := range 20 {
		in.call(uint32(2*i+1), 10)
	}
	wantServed(t, w, r, "arrive")
	if n := in.ended(20); n != 20 {
		t.Errorf("%d of 20 calls were ended", n)
	}
	// A call that arrived may take longer than that.
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.Delay, Delay: 600 * time.Millisecond})
	w.AskIn(t, r, apptest.Refund("ch_slow", 5, "run_slow"), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
}

// However many calls do not get on, only so many may; the connection and everybody
// else go on.
func TestFewCallsMayBeLate(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	// A tenth of the time is over soon, all of it not while the test looks.
	r := limited(t, w, server.Limits{Arrival: 20 * time.Second, Late: 7}, 0)
	in := intrude(t, r, true)
	const calls = 200
	for i := range calls {
		in.call(uint32(2*i+1), 100)
	}
	wantServed(t, w, r, "late")
	if n := in.ended(calls - 7); n != calls-7 {
		t.Errorf("%d of %d calls were ended, want all but 7", n, calls)
	}
	in.must(0, in.SetDeadline(time.Now().Add(200*time.Millisecond)))
	if n := in.ended(1); n != 0 {
		t.Error("more calls were ended than were too many")
	}
	wantServed(t, w, r, "after")
}

// Floods end the connection that they come on, or nothing.
func TestFloods(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{}, 0)
	for name, c := range map[string]struct {
		flood func(in *intruder, i int) error
		ends  bool
	}{
		"pings":    {func(in *intruder, _ int) error { return in.WritePing(false, [8]byte{1}) }, true},
		"settings": {func(in *intruder, _ int) error { return in.WriteSettings() }, false},
		"continuations": {func(in *intruder, i int) error {
			if i == 0 {
				return in.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: in.fields()})
			}
			block := in.fieldsOf("x-filler", strings.Repeat("f", 1000))
			return in.WriteContinuation(1, false, block)
		}, true},
		"resets": {func(in *intruder, i int) error {
			id := uint32(2*i + 1)
			if err := in.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: in.fields(), EndHeaders: true}); err != nil {
				return err
			}
			return in.WriteRSTStream(id, http2.ErrCodeCancel)
		}, false},
		"unknown frames": {func(in *intruder, _ int) error { return in.WriteRawFrame(0x42, 0, 0, []byte("x")) }, false},
		"empty data": {func(in *intruder, i int) error {
			if i == 0 {
				in.call(1, 10)
			}
			return in.WriteData(1, false, nil)
		}, false},
		"window updates": {func(in *intruder, _ int) error { return in.WriteWindowUpdate(0, 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intrude(t, r, true)
			in.AllowIllegalWrites = true
			// It reads nothing: what the server would write piles up, or is not made.
			in.must(0, in.SetWriteDeadline(time.Now().Add(2*time.Second)))
			var err error
			for i := 0; i < 20000 && err == nil; i++ {
				err = c.flood(in, i)
			}
			wantServed(t, w, r, name)
			if c.ends {
				in.closed()
			}
		})
	}
}

func (in *intruder) fieldsOf(name, value string) []byte {
	in.header.Reset()
	if err := in.hpack.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
		in.t.Fatal(err)
	}
	return in.header.Bytes()
}

// More connections than a listener takes wait; when the hostile ones are shut out
// the others are served.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{Silence: time.Second, Answer: 200 * time.Millisecond}, 20)
	for range 40 {
		intrude(t, r, true)
	}
	wantServed(t, w, r, "bounded")
}

// What an idle connection holds is bounded: a thousand of them in a process of its
// own.
func TestIdleConnectionsHoldLittle(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	child := w.StartChild(t, apptest.ChildOptions{})
	wantServed(t, w, child.Replica, "before")
	before := resident(t, child.Process.Pid)
	const connections = 1000
	for range connections {
		intrude(t, child.Replica, true)
	}
	wantServed(t, w, child.Replica, "beside")
	if each := (resident(t, child.Process.Pid) - before) / connections; each > 120<<10 {
		t.Errorf("each idle connection holds %d bytes", each)
	} else {
		t.Logf("each idle connection holds %d bytes", each)
	}
}

// resident is how much memory a process holds, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// Messages around and beyond the limits are refused with their reason, also when
// they come compressed, and hold up nobody.
func TestSizes(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{}, 0)
	ctx := apptest.As(t.Context(), w.Agent)
	arguments := func(json string) *oncewardv1.RequestActionRequest {
		req := apptest.Note("s", "run_size")
		req.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: json}
		return req
	}
	text := func(n int) string {
		const around = len(`{"subject":"s","body":""}`)
		return `{"subject":"s","body":"` + strings.Repeat("b", n-around) + `"}`
	}
	manyFields := func() string {
		var b strings.Builder
		b.WriteString("{")
		for i := range 20000 {
			fmt.Fprintf(&b, `"f%d":1,`, i)
		}
		return b.String() + `"z":1}`
	}
	const most = 256 << 10 // actions.MaxArgumentsBytes
	for _, c := range []struct {
		name    string
		ctx     context.Context
		req     *oncewardv1.RequestActionRequest
		code    codes.Code
		options []grpc.CallOption
	}{
		// The schema of notes wants less than the limit of arguments, and is asked
		// after it.
		{"arguments at the limit", ctx, arguments(text(most)), codes.InvalidArgument, nil},
		{"arguments beyond it", ctx, arguments(text(most + 1)), codes.InvalidArgument, nil},
		{"a message at its limit", ctx, arguments(text(1<<20 - 100)), codes.InvalidArgument, nil},
		{"a message beyond it", ctx, arguments(text(1<<20 + 1)), codes.ResourceExhausted, nil},
		{"a message far beyond it", ctx, arguments(text(20 << 20)), codes.ResourceExhausted, nil},
		{"a bomb", ctx, arguments(text(64 << 20)), codes.ResourceExhausted, []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
		{"compressed, beyond the arguments' limit", ctx, arguments(text(most + 1)), codes.InvalidArgument, []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
		{"deep JSON", ctx, arguments(strings.Repeat(`{"a":`, 40000) + "1" + strings.Repeat("}", 40000)), codes.InvalidArgument, nil},
		{"deep lists", ctx, arguments(strings.Repeat("[", 200000)), codes.InvalidArgument, nil},
		{"many fields", ctx, arguments(manyFields()), codes.InvalidArgument, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Actions.RequestAction(c.ctx, c.req, append(c.options, grpc.MaxCallSendMsgSize(1<<30))...)
			if status.Code(err) != c.code {
				t.Errorf("got %v, want %s", status.Convert(err).Code(), c.code)
			}
			if st := status.Convert(err); len(st.Message()) > 600 {
				t.Errorf("the message is %d bytes long: %.200s", len(st.Message()), st.Message())
			}
			wantServed(t, w, r, "size "+c.name)
		})
	}
}
