package hostile

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/server"
)

// Metadata up to the limit is read, and beyond it refused by the server, whatever the
// client was told of the limit (gRPC's own sends no more than that): the call is reset,
// or, where one field alone is too large, its connection ends. Others are served.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := limited(t, w, server.Limits{}, 0)
	for name, c := range map[string]struct {
		fields []hpack.HeaderField
		want   string
	}{
		"none":                     {nil, "answered"},
		"large":                    {[]hpack.HeaderField{{Name: "x-large", Value: strings.Repeat("m", 15<<10)}}, "answered"},
		"too large":                {[]hpack.HeaderField{{Name: "x-large", Value: strings.Repeat("m", 17<<10)}}, "closed"},
		"far too large":            {[]hpack.HeaderField{{Name: "x-large", Value: strings.Repeat("m", 1<<20)}}, "closed"},
		"many":                     {many(350), "answered"},
		"too many":                 {many(1000), "reset"},
		"a name too large":         {[]hpack.HeaderField{{Name: "x-" + strings.Repeat("n", 17<<10), Value: "v"}}, "closed"},
		"the same, from the table": {repeated(1000), "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intrude(t, r, true)
			in.whole(1, c.fields)
			if got := in.fate(1); got != c.want {
				t.Errorf("the call was %s, want %s", got, c.want)
			}
			if c.want == "closed" {
				return
			}
			in.whole(3, nil)
			if got := in.fate(3); got != "answered" {
				t.Errorf("the call after it was %s", got)
			}
		})
	}
	wantServed(t, w, r, "metadata")
}

func many(n int) (fields []hpack.HeaderField) {
	for i := range n {
		fields = append(fields, hpack.HeaderField{Name: "x-" + strconv.Itoa(i), Value: "v"})
	}
	return fields
}

// repeated fields are a byte each on the wire, and as large as ever when they are read.
func repeated(n int) (fields []hpack.HeaderField) {
	for range n {
		fields = append(fields, hpack.HeaderField{Name: "x-same", Value: "the same each time"})
	}
	return fields
}

// whole makes a call with an empty message and more headers, in as many frames as
// they want.
func (in *intruder) whole(stream uint32, more []hpack.HeaderField) {
	in.t.Helper()
	const frame = 16 << 10
	block := in.fields(more...)
	first := block[:min(frame, len(block))]
	block = block[len(first):]
	// The server may hang up in the middle.
	err := in.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(block) == 0})
	for len(block) > 0 && err == nil {
		next := block[:min(frame, len(block))]
		block = block[len(next):]
		err = in.WriteContinuation(stream, len(block) == 0, next)
	}
	if err == nil {
		_ = in.WriteData(stream, true, make([]byte, 5)) // as above
	}
}

// fate is what became of a call: "answered", "reset", or "closed" with its
// connection.
func (in *intruder) fate(stream uint32) string {
	in.t.Helper()
	for {
		f, err := in.ReadFrame()
		if err != nil {
			if timedOut(err) {
				in.t.Fatal("the call has no end")
			}
			return "closed"
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = in.WriteSettingsAck() // the next read says whether anybody is there
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = in.WritePing(true, f.Data) // as above
			}
		case *http2.HeadersFrame:
			if f.StreamID == stream && f.StreamEnded() {
				return "answered"
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset"
			}
		}
	}
}
