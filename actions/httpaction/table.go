package httpaction

import (
	"net/http"
	"slices"

	"github.com/onceward/onceward/actions"
)

// need is what a row asks for beyond the status line.
type need int

const (
	_ need = iota // nothing more
	// needOrigin: a proof that the provider answered, not something in between
	// that never asked it, or asked it and lost the answer.
	needOrigin
)

// row says what a status code proves by itself.
type row struct {
	statuses    []int
	kind        actions.Kind
	need        need
	correctable bool // other arguments could succeed
}

// standard is the allow-list of proofs (RFC 9110, RFC 8470, RFC 6585). A status
// that is not in it is ambiguous: so are 402 (a declined payment can leave an
// object), 408 and 409, 499 and other inventions of proxies, all 5xx but two,
// 301 and 302 (a post that was acted on is often answered so), 207 (parts may
// have failed) and whatever will be invented. Providers that promise more get a
// Rule.
//
// A refusal without origin proof is ambiguous and ends in a look-up or with a
// person: a page of a proxy does not say what the provider did.
var standard = []row{
	{statuses: []int{200, 201, 203, 204, 205, 206, 226}, kind: actions.Applied},
	{statuses: []int{http.StatusAccepted}, kind: actions.Accepted},
	{statuses: []int{http.StatusSeeOther}, kind: actions.AppliedNoReceipt}, // the result is elsewhere

	// Answers that tell us to send again, elsewhere or differently: whoever gave
	// them did not act. They are not followed; the configuration is wrong.
	{statuses: []int{300, 304, 307, 308}, kind: actions.Rejected},

	{statuses: []int{400, 413, 414, 422}, kind: actions.Rejected, need: needOrigin, correctable: true},
	{statuses: []int{401, 403}, kind: actions.Rejected, need: needOrigin},
	{statuses: []int{404, 410, 412}, kind: actions.Rejected, need: needOrigin, correctable: true},
	{statuses: []int{405, 406, 411, 415, 417, 428, 431, 451}, kind: actions.Rejected, need: needOrigin},
	{statuses: []int{501, 505}, kind: actions.Rejected, need: needOrigin},

	// Their definitions say that the request was not processed, whoever says it.
	{statuses: []int{http.StatusMisdirectedRequest, http.StatusTooEarly}, kind: actions.NotApplied},
	{statuses: []int{http.StatusTooManyRequests}, kind: actions.RateLimited},
}

// lookUp returns the row of a status; the zero row proves nothing.
func lookUp(status int) row {
	i := slices.IndexFunc(standard, func(r row) bool { return slices.Contains(r.statuses, status) })
	if i < 0 {
		return row{}
	}
	return standard[i]
}
