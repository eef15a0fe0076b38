package httpaction

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Sent says whether the provider may have seen any of a request.
type Sent int

const (
	// MaybeSent is everything that is not NotSent; it is the zero value.
	MaybeSent Sent = iota
	// NotSent means that the connection was offered no byte of the request.
	NotSent
)

func (s Sent) String() string {
	if s == NotSent {
		return "not sent"
	}
	return "maybe sent"
}

// Phase is how far an exchange came: the step that failed, or PhaseDone.
type Phase string

// The phases in their order.
const (
	PhasePrepare Phase = "prepare" // checks and credentials; nothing is open
	PhaseDial    Phase = "dial"    // name resolution and connecting
	PhaseTLS     Phase = "tls"     // handshake and verification
	PhaseWrite   Phase = "write"   // writing the request
	PhaseHeaders Phase = "headers" // waiting for status and headers
	PhaseBody    Phase = "body"    // reading the body
	PhaseDone    Phase = "done"
)

// Exchange is what one request led to. The zero value proves nothing.
type Exchange struct {
	Sent Sent
	// BytesOffered counts the bytes of the request that the connection was
	// asked to write, above TLS. It says nothing about arrival.
	BytesOffered int64
	Status       int // 0 without an answer; never an interim 1xx but 101
	Header       http.Header
	Body         []byte // what was read, at most Options.MaxResponseBytes
	// Complete says that nothing shows the body to be cut: its length agreed,
	// its last chunk came or, where the provider gave neither, it closed the
	// connection. The last case cannot be told from a cut, so that only a body
	// that also parses to its end counts as whole.
	Complete   bool
	ReceivedAt time.Time // when the exchange ended
	Phase      Phase
	// Err is what ended the exchange early, for programs; Evidence is the text
	// to store and show. It wraps ErrNotSendable where no
	// later attempt of the same request can do better, and the context's
	// cause where time was up.
	Err error
	// Evidence is one line about what was seen, without secrets.
	Evidence string
	// Parsed is what an adapter made of the answer before it is classified, for
	// functions of its own Rules; a Sender leaves it nil.
	Parsed any
}

// NotRendered is the exchange of a request that could not be made: nothing was
// sent, and nothing can be while the call stays as it is.
func NotRendered(err error) Exchange {
	x := Exchange{Sent: NotSent, Phase: PhasePrepare, Err: fmt.Errorf("%w: %w", ErrNotSendable, err)}
	x.Evidence = oneLine(x.seen())
	return x
}

// seen says what was observed, as it came.
func (x *Exchange) seen() string {
	switch {
	case x.Status == 0:
		return fmt.Sprintf("%s: %v, %d bytes offered", x.Phase, x.Err, x.BytesOffered)
	case x.Err != nil:
		return fmt.Sprintf("HTTP %d %s, body cut after %d bytes: %v", x.Status, x.mediaType(), len(x.Body), x.Err)
	default:
		return fmt.Sprintf("HTTP %d %s, %d bytes", x.Status, x.mediaType(), len(x.Body))
	}
}

// mediaType returns the lower-case media type of the body without parameters,
// or "untyped".
func (x *Exchange) mediaType() string {
	media, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if err != nil || media == "" {
		return "untyped"
	}
	return media
}

// declaredJSON reports whether the answer says that its body is JSON.
func (x *Exchange) declaredJSON() bool {
	media := x.mediaType()
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
