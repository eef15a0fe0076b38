package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// webhookTimeout bounds one call of a webhook.
const webhookTimeout = 10 * time.Second

// webhookRequest is the body of POST /_fake/webhooks.
type webhookRequest struct {
	// OperationID names a write: the templates of the event see its request,
	// id, key, n and object.
	OperationID string `json:"operation_id"`
	// Event is the body: JSON whose texts are templates. Form is one in its
	// place, of a form.
	Event any               `json:"event"`
	Form  map[string]string `json:"form"`
	// Headers are sent beside the signature's.
	Headers map[string]string `json:"headers"`
}

// webhooks is the control call that sends one, where the contract has them.
func (s *simulation) webhooks() []fakeprovider.Control {
	if s.provider.Webhooks == nil {
		return nil
	}
	verify := s.provider.Webhooks.Verify
	if len(verify.Secrets) == 0 {
		s.bad(s.provider.Place, "webhooks.verify.secrets", "is empty: the simulator has nothing to sign with")
		return nil
	}
	if _, err := signature(verify, &http.Request{URL: &url.URL{}, Header: http.Header{}}, nil, s.now()); err != nil {
		s.bad(s.provider.Place, "webhooks.verify", "%v", err)
		return nil
	}
	return []fakeprovider.Control{{
		Pattern: "POST /_fake/webhooks",
		Help:    `POST   /_fake/webhooks              {"operation_id":"...","event":{...}} signs the event and sends it; its texts may hold ${id}, ${uuid}, ${object.x}, ${request.body.x}`,
		Serve:   s.serveWebhook,
	}}
}

func (s *simulation) serveWebhook(rw http.ResponseWriter, r *http.Request) {
	tell := func(status int, value any) {
		body, err := encode(value)
		if err != nil {
			status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_, _ = rw.Write(append(body, '\n')) // who has left needs no answer
	}
	fail := func(status int, err error) { tell(status, map[string]any{"error": err.Error()}) }
	var in webhookRequest
	dec := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&in); err != nil {
		fail(http.StatusBadRequest, fmt.Errorf("cannot read the body: %w", err))
		return
	}
	if s.options.WebhookURL == "" {
		fail(http.StatusConflict, errors.New("the simulator knows no URL to send webhooks to; start it with one (onceward simulate --webhook-url=…)"))
		return
	}
	contentType, body, err := s.webhookBody(in)
	if err != nil {
		fail(http.StatusBadRequest, err)
		return
	}
	status, answer, err := s.post(r.Context(), in, contentType, body)
	if err != nil {
		fail(http.StatusBadGateway, err)
		return
	}
	tell(http.StatusOK, map[string]any{"sent_to": s.options.WebhookURL, "body": string(body), "status": status, "answer": answer})
}

// webhookBody fills the event in.
func (s *simulation) webhookBody(in webhookRequest) (contentType string, body []byte, err error) {
	if (in.Event == nil) == (in.Form == nil) {
		return "", nil, errors.New("want event or form")
	}
	vars := s.vars(map[string]any{})
	if in.OperationID != "" {
		if vars, err = s.made(in.OperationID); err != nil {
			return "", nil, err
		}
	}
	vars["uuid"] = newUUID() // of the event: another one each time
	template := in.Event
	if in.Form != nil {
		fields := map[string]any{}
		for name, text := range in.Form {
			fields[name] = text
		}
		template = fields
	}
	tree, err := s.play.Tree(template)
	if err != nil {
		return "", nil, err
	}
	value, err := tree.Value(vars)
	if err != nil {
		return "", nil, err
	}
	if in.Form == nil {
		body, err = encode(value)
		return "application/json", body, err
	}
	form := url.Values{}
	if fields, ok := value.(map[string]any); ok {
		for name, v := range fields {
			form.Set(name, fmt.Sprint(v))
		}
	}
	return "application/x-www-form-urlencoded", []byte(form.Encode()), nil
}

// made are the variables of the newest object that an operation made.
func (s *simulation) made(operationID string) (expr.Vars, error) {
	for _, a := range s.actions {
		for _, o := range s.fake.Objects(a.of.Type) {
			if o.Draft.OperationID != operationID {
				continue
			}
			vars := a.objectVars(o)
			vars["object"], _ = a.seen(o)
			return vars, nil
		}
	}
	return nil, fmt.Errorf("no write of operation %q was applied", operationID)
}

// post signs an event and sends it.
func (s *simulation) post(ctx context.Context, in webhookRequest, contentType string, body []byte) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.options.WebhookURL, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", contentType)
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		r.Header.Set(name, in.Headers[name])
	}
	signed, err := signature(s.provider.Webhooks.Verify, r, body, s.now())
	if err != nil {
		return 0, "", err
	}
	maps.Copy(r.Header, signed)
	client := s.options.Client
	if client == nil {
		client = &http.Client{Timeout: webhookTimeout}
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, strings.TrimSpace(string(read)), err
}

// signature are the headers with which a provider proves that a call is its own.
func signature(v definition.Verify, r *http.Request, body []byte, now time.Time) (http.Header, error) {
	secret, seconds := Secret(v.Secrets[0]), fmt.Sprint(now.Unix())
	out := http.Header{}
	switch v.Scheme {
	case "stripe":
		out.Set("Stripe-Signature", "t="+seconds+",v1="+mac("sha256", "hex", []byte(secret), seconds+"."+string(body)))
	case "github":
		out.Set("X-Hub-Signature-256", "sha256="+mac("sha256", "hex", []byte(secret), string(body)))
	case "standard":
		id := "msg_" + newUUID()
		out.Set("webhook-id", id)
		out.Set("webhook-timestamp", seconds)
		out.Set("webhook-signature", "v1,"+mac("sha256", "base64", decoded(secret), id+"."+seconds+"."+string(body)))
	case "hmac":
		if v.Header == "" {
			return nil, errors.New("the header with the signature has no name")
		}
		if v.TimestampHeader != "" {
			out.Set(v.TimestampHeader, seconds)
		}
		content, err := signedContent(v.Content, r, body, seconds)
		if err != nil {
			return nil, err
		}
		if _, known := hashes()[v.Algorithm]; !known {
			return nil, fmt.Errorf("there is no algorithm %q", v.Algorithm)
		}
		out.Set(v.Header, v.Prefix+mac(v.Algorithm, v.Encoding, []byte(secret), content))
	default:
		return nil, fmt.Errorf("there is no scheme %q", v.Scheme)
	}
	return out, nil
}

// signedContent puts together what the scheme hmac signs.
func signedContent(parts []string, r *http.Request, body []byte, timestamp string) (string, error) {
	if len(parts) == 0 {
		return string(body), nil
	}
	var out strings.Builder
	for _, part := range parts {
		kind, argument, _ := strings.Cut(part, ":")
		switch kind {
		case "body":
			out.Write(body)
		case "url":
			out.WriteString(r.URL.String())
		case "method":
			out.WriteString(r.Method)
		case "timestamp":
			out.WriteString(timestamp)
		case "header":
			out.WriteString(r.Header.Get(argument))
		case "text":
			out.WriteString(argument)
		case "form":
			form, err := url.ParseQuery(string(body))
			if err != nil {
				return "", errors.New("the body is no form, and its fields are to be signed")
			}
			for _, name := range slices.Sorted(maps.Keys(form)) {
				out.WriteString(name + form.Get(name))
			}
		default:
			return "", fmt.Errorf("%q cannot be signed", part)
		}
	}
	return out.String(), nil
}
