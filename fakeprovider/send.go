package fakeprovider

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strconv"
)

// serverName is the Server header by which a client can tell the provider's
// own answers from a proxy's.
const serverName = "onceward-fakeprovider"

const defaultHugeSize = 8 << 20

// send answers, as the fault will have it. a is what a healthy provider would
// say; it is zero where the fault kept the write from being executed.
func (x *exchange) send(a Answer) {
	if x.own != nil {
		x.write(*x.own)
		return
	}
	switch x.fault.kind() {
	case DropAnswerAfterApplying, DropBeforeReading:
		x.cut()
	case NeverAnswer:
		receive(x, x.r.Context().Done())
		x.cut()
	case HTML502:
		x.writeProxyPage()
	case Redirect:
		x.write(x.redirect(a))
	case TruncateAnswer, TruncateAnswerChunked, TruncateAnswerUntilClose:
		x.writeTruncated(a)
	case MalformedJSON201:
		a.Body = []byte(`{"id":"re_`)
		x.write(a)
	case Empty201:
		a.Body = nil
		x.write(a)
	case WrongContentType:
		a.Header = a.Header.Clone()
		if a.Header == nil {
			a.Header = http.Header{}
		}
		a.Header.Set("Content-Type", "text/html; charset=utf-8")
		x.write(a)
	case HugeAnswer:
		size := x.fault.Size
		if size == 0 {
			size = defaultHugeSize
		}
		a.Body = pad(a.Body, size)
		x.write(a)
	case NULAnswer, LoneSurrogateAnswer, InvalidUTF8Answer:
		a.Body = spoil(a.Body, x.spoiledField(), rubbish(x.fault.kind()))
		x.write(a)
	default:
		x.write(a)
	}
}

func (x *exchange) spoiledField() string {
	if x.fault.Field != "" {
		return x.fault.Field
	}
	if res := x.to.resource(); res != nil && res.Spoiled != "" {
		return res.Spoiled
	}
	return "status"
}

// failed is the error answer of the fault; nil where it has none.
func (x *exchange) failed() *Answer {
	f, isError := x.fault.failure()
	if !isError {
		return nil
	}
	var a Answer
	own := false
	if res := x.to.resource(); res != nil && res.Fault != nil {
		a, own = res.Fault(x.call, x.fault)
	}
	if !own {
		a = x.p.opts.Failure(f)
	}
	if text := x.fault.retryAfter(); text != "" {
		header := a.Header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Retry-After", text)
		a.Header = header
	}
	return &a
}

func rubbish(k Kind) string {
	switch k {
	case NULAnswer:
		return `\u0000`
	case LoneSurrogateAnswer:
		return `\ud800`
	default:
		return "\xff\xfe"
	}
}

func (x *exchange) redirect(a Answer) Answer {
	out := Answer{Status: http.StatusTemporaryRedirect, Header: http.Header{}}
	if x.fault.Status != 0 {
		out.Status = x.fault.Status
	}
	location := x.fault.Location
	if location == "" {
		location = a.Location
	}
	if location == "" {
		location = x.r.URL.RequestURI()
	}
	out.Header.Set("Location", location)
	return out
}

// header is what the provider's own answers carry.
func (x *exchange) header(a Answer) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Request-Id":   {"req_" + strconv.Itoa(x.rec.Number)},
		"Server":       {serverName},
	}
	maps.Copy(h, a.Header)
	return h
}

func (x *exchange) write(a Answer) {
	maps.Copy(x.rw.Header(), x.header(a))
	x.rw.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	x.answered(a.Status)
	x.rw.WriteHeader(a.Status)
	_, _ = x.rw.Write(a.Body) // the client may have left; the effect stands
}

func (x *exchange) writeProxyPage() {
	h := x.rw.Header()
	h.Set("Server", "gateway")
	h.Set("Content-Type", "text/html; charset=utf-8")
	x.answered(http.StatusBadGateway)
	x.rw.WriteHeader(http.StatusBadGateway)
	_, _ = x.rw.Write([]byte("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"))
}

// writeTruncated sends half of the answer and cuts the connection. It writes
// to the connection itself, since net/http takes care not to do this.
func (x *exchange) writeTruncated(a Answer) {
	half := a.Body[:len(a.Body)/2]
	h := x.header(a)
	var rest []byte
	switch x.fault.kind() {
	case TruncateAnswer:
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
		rest = half
	case TruncateAnswerChunked:
		h.Set("Transfer-Encoding", "chunked")
		rest = fmt.Appendf(nil, "%x\r\n%s\r\n", len(half), half)
	default:
		h.Set("Connection", "close")
		rest = half
	}
	var wire bytes.Buffer
	fmt.Fprintf(&wire, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	_ = h.Write(&wire) // a buffer takes everything
	wire.WriteString("\r\n")
	wire.Write(rest)
	x.answered(a.Status)
	x.hijack(wire.Bytes())
}

func (x *exchange) answered(status int) {
	x.w.log.update(x.rec, func(rec *Request) { rec.Status = status })
}

// cut ends the connection without an answer.
func (x *exchange) cut() { x.hijack(nil) }

// hijack takes the connection over, writes wire as it is and closes it.
func (x *exchange) hijack(wire []byte) {
	conn, _, err := http.NewResponseController(x.rw).Hijack()
	if err != nil {
		// No connection of our own (a recorder, HTTP/2): let net/http abort it.
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	_, _ = conn.Write(wire) // the client may have left
	if lingerer, ok := conn.(interface{ SetLinger(int) error }); ok && x.fault.Reset {
		_ = lingerer.SetLinger(0) // best effort: FIN is a cut too
	}
}
