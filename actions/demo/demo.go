package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Options say where the provider is and what it promises.
type Options struct {
	ProviderURL string // base URL, such as "http://127.0.0.1:8090"; required
	// Token is the provider's bearer token; required. The caller has resolved
	// it from a reference; it is sent and never stored.
	Token string
	// PrivateNetworks may be dialled although they are not public; default
	// httpaction.Loopback.
	PrivateNetworks []netip.Prefix

	Timeout time.Duration // of one attempt; default actions.DefaultTimeout

	// MailSettleTime is the longest that the e-mail search lags; default 60 s.
	MailSettleTime time.Duration
	// ArrivalTime is how long a request that was sent may take to arrive at the
	// providers whose look-ups do not lag, payments and CRM; default 5 s.
	ArrivalTime time.Duration
	// LateLanding is how long after a proved absence the reconciler keeps
	// looking for a request that was held up on its way; default 5 min.
	LateLanding time.Duration
	// Protection is when the provider is left alone; zero is the default of
	// [actions.Protection].
	Protection actions.Protection
	// ReadGap is the least time between two look-ups that find nothing; default
	// actions.DefaultReadGap.
	ReadGap time.Duration
	// StoresFailures says that the payments provider replays failures too.
	StoresFailures bool
}

// maxAnswerBytes leaves room for answers of which a receipt is a small part.
const maxAnswerBytes = 8 << 20

func (o Options) withDefaults() Options {
	if o.PrivateNetworks == nil {
		o.PrivateNetworks = httpaction.Loopback()
	}
	if o.Timeout == 0 {
		o.Timeout = actions.DefaultTimeout
	}
	if o.MailSettleTime == 0 {
		o.MailSettleTime = time.Minute
	}
	if o.ArrivalTime == 0 {
		o.ArrivalTime = 5 * time.Second
	}
	if o.LateLanding == 0 {
		o.LateLanding = 5 * time.Minute
	}
	return o
}

// New makes all adapters of this package: three on one provider, and
// notes.insert on the ledger's own database.
func New(o Options) ([]actions.Adapter, error) {
	o = o.withDefaults()
	service, err := newService(o)
	if err != nil {
		return nil, fmt.Errorf("demo adapters: %w", err)
	}
	refunds, err1 := newRefunds(service, o)
	invoices, err2 := newInvoices(service, o)
	contacts, err3 := newContacts(service, o)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("demo adapters: %w", err)
	}
	return []actions.Adapter{refunds, invoices, contacts, newNotes(o)}, nil
}

// service is one provider's API: where it is and how to talk to it. It is safe
// for concurrent use.
type service struct {
	base   string // without a slash at its end
	sender *httpaction.Sender
}

func newService(o Options) (*service, error) {
	u, err := url.Parse(o.ProviderURL)
	if err != nil || u.Host == "" {
		return nil, errors.New("provider URL: want http://host:port or https://host")
	}
	if o.Token == "" {
		return nil, errors.New("token is empty")
	}
	sender, err := httpaction.NewSender(httpaction.Options{
		Origins:          []string{u.Scheme + "://" + u.Host},
		PrivateNetworks:  o.PrivateNetworks,
		Timeout:          o.Timeout,
		MaxResponseBytes: maxAnswerBytes,
		Credential: func(context.Context, httpaction.Request) (http.Header, error) {
			return http.Header{"Authorization": {"Bearer " + o.Token}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &service{base: strings.TrimRight(o.ProviderURL, "/"), sender: sender}, nil
}

// post renders a JSON request. The same body value gives the same bytes.
func (s *service) post(path string, body any) (httpaction.Request, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return httpaction.Request{}, fmt.Errorf("encoding the body: %w", err)
	}
	return httpaction.Request{
		Method: http.MethodPost,
		URL:    s.base + path,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
		Body:   encoded,
	}, nil
}

// get looks something up. The answer counts when it is complete and the
// provider's own; otherwise ok is false and detail says what came instead.
func (s *service) get(ctx context.Context, path string) (x httpaction.Exchange, ok bool) {
	x = s.sender.Read(ctx, httpaction.Request{
		Method: http.MethodGet,
		URL:    s.base + path,
		Header: http.Header{"Accept": {"application/json"}},
	})
	return x, httpaction.JSONOrigin(x)
}

// metadata is what each write carries to be found again.
type metadata struct {
	OperationID string `json:"operation_id"`
}

// operationOf returns the operation id in an object's metadata, or "".
func operationOf(object []byte) string {
	var tagged struct {
		Metadata metadata `json:"metadata"`
	}
	if json.Unmarshal(object, &tagged) != nil {
		return ""
	}
	return tagged.Metadata.OperationID
}

// found is the finding for one object that is ours. An object without the
// receipt's fields, or one that the provider has not finished, settles nothing.
func found(object []byte, receiptFields []string) actions.Finding {
	receipt, err := httpaction.ReceiptOf(object, "id", receiptFields...)
	if err != nil {
		return inconclusive("found, but without a receipt: " + err.Error())
	}
	var state struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(object, &state) != nil || state.Status == "pending" {
		return inconclusive("found, but the provider has not finished it")
	}
	return actions.Finding{Kind: actions.Found, Receipt: receipt}
}

func inconclusive(detail string) actions.Finding {
	return actions.Finding{Kind: actions.Inconclusive, Detail: detail}
}

// errorOf reads the error body that all resources of the provider share.
func errorOf(body []byte) (code, message string) {
	return httpaction.JSONError("error.code", "error.message")(body)
}
