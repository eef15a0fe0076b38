package guard

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// ReplayHeader is "true" on a response that an earlier request got first.
const ReplayHeader = "Onceward-Replayed"

// Require is middleware for a route that performs these action types, at least
// one. Requests with a safe method pass. Any other one needs a token for one of
// the types, is performed once, and finds the token's claims in its context.
//
// What the handler answers says how its operation ended: 2xx and 3xx are
// performed, and the response is kept; 400, 401, 403 to 406, 410 to 415, 417, 422,
// 428, 431 and 451 are refusals that did nothing; anything else (402, 408, 409, 429
// and 499 too) and a panic leave it unresolved, but see [NotApplied]. Responses are held back until the handler returns, so that a
// handler cannot stream.
//
// It panics without types, which would be a route that nobody can use.
func (g *Guard) Require(actionTypes ...string) func(http.Handler) http.Handler {
	if len(actionTypes) == 0 {
		panic("guard: Require wants the action types of the route")
	}
	actionTypes = slices.Clone(actionTypes)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slices.Contains(g.o.SafeMethods, r.Method) {
				next.ServeHTTP(w, withoutToken(r))
				return
			}
			pass, err := g.Admit(r.Context(), tokenOf(r.Header), actionTypes...)
			switch {
			case err != nil:
				WriteError(w, err)
			case pass.Replay != nil:
				WriteResponse(w, *pass.Replay, true)
			default:
				pass.serve(w, r, next)
			}
		})
	}
}

// tokenOf is the one token of a request. Two are worse than none.
func tokenOf(h http.Header) string {
	switch values := h.Values(TokenHeader); len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	default:
		return "several"
	}
}

// withoutToken is a request as handlers see it: the token is a credential, and
// they log headers.
func withoutToken(r *http.Request) *http.Request {
	if len(r.Header.Values(TokenHeader)) == 0 {
		return r
	}
	r = r.WithContext(r.Context()) // a copy
	r.Header = maps.Clone(r.Header)
	r.Header.Del(TokenHeader)
	return r
}

// serve performs a request and records how it ended before it is answered.
func (p *Pass) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	r = withoutToken(r.WithContext(p.Context(r.Context())))
	held := &heldResponse{header: http.Header{}}
	returned := false
	defer func() {
		if !returned { // it panicked: net/http goes on with that
			p.Doubtful(r.Context())
		}
	}()
	next.ServeHTTP(held, r)
	returned = true
	response := held.response()
	switch status := response.Status; {
	case status >= 200 && status < 400:
		p.Done(r.Context(), kept(response))
	case proofOfRefusal(status):
		p.Refused(r.Context())
	default:
		p.Doubtful(r.Context())
	}
	WriteResponse(w, response, false)
}

// proofOfRefusal: the handler saw the request and did nothing of it. It is a list
// of those that say so. What is not in it is in doubt: 408, 409, 425 and 429 are
// said of requests that are under way too, 402 of a payment that was tried, and
// 499 (as grpc-gateway has it) of one whose caller left in the middle.
func proofOfRefusal(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusLengthRequired,
		http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusUnprocessableEntity,
		http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons:
		return true
	default:
		return false
	}
}

// WriteResponse sends a response that was kept, or is fresh.
func WriteResponse(w http.ResponseWriter, r Response, replayed bool) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	if replayed {
		w.Header().Set(ReplayHeader, "true")
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // who is not there any more asks again
}

// WriteError answers a request that was refused: its status, and the reason as
// JSON. Any other error than a *RefusedError is ReasonUnavailable.
func WriteError(w http.ResponseWriter, err error) {
	reason := ReasonOf(err)
	status := statusOf(reason)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", TokenHeader)
	}
	body, _ := json.Marshal(map[string]Reason{"reason": reason}) // of text alone: it cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func statusOf(reason Reason) int {
	switch reason {
	case ReasonTokenRequired, ReasonTokenInvalid:
		return http.StatusUnauthorized
	case ReasonForbidden:
		return http.StatusForbidden
	case ReasonInProgress, ReasonUnresolved, ReasonDone, ReasonMismatch:
		return http.StatusConflict
	default:
		return http.StatusServiceUnavailable
	}
}

// heldResponse is a response until it is known how the operation ended.
type heldResponse struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header { return h.header }

func (h *heldResponse) WriteHeader(status int) {
	if h.status != 0 || status < 200 { // informational ones do not end it
		return
	}
	h.status, h.sent = status, h.header.Clone()
}

func (h *heldResponse) Write(data []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(data)
}

func (h *heldResponse) response() Response {
	h.WriteHeader(http.StatusOK) // a handler that says nothing says 200
	header := h.sent
	if header.Get("Content-Type") == "" && h.body.Len() > 0 {
		header.Set("Content-Type", http.DetectContentType(h.body.Bytes()))
	}
	return Response{Status: h.status, Header: header, Body: bytes.Clone(h.body.Bytes())}
}

// kept is a response without what is for one connection or one client alone.
func kept(r Response) Response {
	header := http.Header(r.Header).Clone()
	for _, own := range [...]string{"Connection", "Date", "Keep-Alive", "Set-Cookie", "Trailer", "Transfer-Encoding"} {
		header.Del(own)
	}
	r.Header = header
	return r
}
