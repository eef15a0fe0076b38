package grpcaction

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/actions"
)

// Types, flags and error codes of HTTP/2 (RFC 9113, sections 6 and 7).
const (
	typeData, typeHeaders, typeRST, typeSettings, typePing, typeGoAway = 0, 1, 3, 4, 6, 7

	flagEndStream, flagAck = 1, 1

	noError, protocolError, internalError, refusedStream, cancelled, calmDown = 0, 1, 2, 7, 8, 11
)

// TestRefusedStreams: what HTTP/2 promises to be unprocessed is proof, anything
// else is doubt, and neither makes a second stream.
func TestRefusedStreams(t *testing.T) {
	t.Parallel()
	reset := func(code uint32) func(*h2, uint32) {
		return func(s *h2, stream uint32) { s.write(typeRST, 0, stream, binary.BigEndian.AppendUint32(nil, code)) }
	}
	away := func(last, code uint32) func(*h2, uint32) {
		return func(s *h2, _ uint32) {
			s.write(typeGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
			_ = s.conn.Close()
		}
	}
	for name, tt := range map[string]struct {
		act  func(*h2, uint32)
		want actions.Kind
	}{
		"REFUSED_STREAM":                  {reset(refusedStream), actions.NotApplied},
		"GOAWAY before our stream":        {away(0, noError), actions.NotApplied},
		"GOAWAY before our stream, error": {away(0, calmDown), actions.NotApplied},
		"GOAWAY after our stream":         {away(1, noError), actions.Ambiguous},
		"GOAWAY far after our stream":     {away(1<<31-1, internalError), actions.Ambiguous},
		"CANCEL":                          {reset(cancelled), actions.Ambiguous},
		"INTERNAL_ERROR":                  {reset(internalError), actions.Ambiguous},
		"PROTOCOL_ERROR":                  {reset(protocolError), actions.Ambiguous},
		"ENHANCE_YOUR_CALM":               {reset(calmDown), actions.Ambiguous},
		"NO_ERROR":                        {reset(noError), actions.Ambiguous},
		"the connection ends":             {func(s *h2, _ uint32) { _ = s.conn.Close() }, actions.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var streams atomic.Int32
			address := talkTo(t, func(c net.Conn) { (&h2{c}).serve(&streams, tt.act) })
			o := adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`))
			if o.Kind != tt.want || streams.Load() != 1 {
				t.Errorf("got %s by %d streams, want %s by one", shownOutcome(o), streams.Load(), tt.want)
			}
			if refused := strings.Contains(o.Failure.Evidence, "the stream was refused"); refused != (tt.want == actions.NotApplied) {
				t.Errorf("evidence %q", o.Failure.Evidence)
			}
		})
	}
}

// h2 is the least of an HTTP/2 server: it counts streams, and acts on each when
// the whole request has arrived.
type h2 struct{ conn net.Conn }

func (s *h2) serve(streams *atomic.Int32, act func(*h2, uint32)) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.CopyN(io.Discard, s.conn, int64(len(preface))); err != nil {
		return
	}
	s.write(typeSettings, 0, 0, nil)
	for {
		var header [9]byte
		if _, err := io.ReadFull(s.conn, header[:]); err != nil {
			return
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(s.conn, payload); err != nil {
			return
		}
		kind, flags, stream := header[3], header[4], binary.BigEndian.Uint32(header[5:])
		switch kind {
		case typeSettings, typePing:
			if flags&flagAck == 0 {
				if kind == typeSettings {
					payload = nil
				}
				s.write(kind, flagAck, 0, payload)
			}
		case typeHeaders:
			streams.Add(1)
		case typeData:
			if flags&flagEndStream != 0 {
				act(s, stream)
			}
		}
	}
}

func (s *h2) write(kind, flags byte, stream uint32, payload []byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	_, _ = s.conn.Write(append(head, payload...)) // the client may have left
}
