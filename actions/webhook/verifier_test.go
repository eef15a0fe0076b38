package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/webhook"
)

// signedMessage is a message with what makes it genuine.
type signedMessage struct {
	rules   webhook.Rules
	secret  string
	message actions.Message
	at      time.Time // that it names; zero where it names none
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
	"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J" +
	"%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// published are the examples that providers publish with their schemes.
func published() map[string]signedMessage {
	svix := time.Unix(1614265330, 0)
	standard := func(prefix string) signedMessage {
		return signedMessage{
			webhook.Rules{Scheme: webhook.Standard}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			message(`{"test": 2432232314}`, prefix+"Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", prefix+"Timestamp", "1614265330",
				prefix+"Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), svix,
		}
	}
	twilio := webhook.Rules{
		Scheme: webhook.HMAC, Header: "X-Twilio-Signature", Algorithm: webhook.SHA1, Encoding: webhook.Base64,
		Content: []webhook.Part{{Kind: webhook.URL}, {Kind: webhook.Form}},
	}
	return map[string]signedMessage{
		"standard": standard("Webhook-"),
		"svix":     standard("Svix-"),
		"github": {
			webhook.Rules{Scheme: webhook.GitHub}, "It's a Secret to Everybody",
			message("Hello, World!", "X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), time.Time{},
		},
		"slack": {
			webhook.Rules{
				Scheme: webhook.HMAC, Header: "X-Slack-Signature", Prefix: "v0=", TimestampHeader: "X-Slack-Request-Timestamp",
				Content: []webhook.Part{{Kind: webhook.Text, Text: "v0:"}, {Kind: webhook.Timestamp}, {Kind: webhook.Text, Text: ":"}, {Kind: webhook.Body}},
			}, "8f742231b10e8888abcd99yyyzzz85a5",
			message(slackBody, "X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
			time.Unix(1531420618, 0),
		},
		"twilio": {
			twilio, "12345",
			message("Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE", "X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
			time.Time{},
		},
		"twilio, a name twice": {
			twilio, "12345",
			message("Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234", "X-Twilio-Signature", "IK+Dwps556ElfBT0I3Rgjkr1wJU="),
			time.Time{},
		},
	}
}

// message is one with some headers, name and value in turn.
func message(body string, headers ...string) actions.Message {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return actions.Message{Method: http.MethodPost, URL: "https://mycompany.com/myapp.php?foo=1&bar=2", Header: h, Body: []byte(body)}
}

// stripe signs as Stripe documents it: no example is published.
func stripe(secret, timestamp, body string) string {
	return hex.EncodeToString(sum(secret, timestamp+"."+body))
}

func sum(secret, content string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(content))
	return mac.Sum(nil)
}

func verifier(t testing.TB, r webhook.Rules) *webhook.Verifier {
	t.Helper()
	v, err := webhook.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func secrets(texts ...string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

// Other messages than the published one, or other secrets, are refused.
func TestPublishedExamples(t *testing.T) {
	t.Parallel()
	other := "b3RoZXIgc2VjcmV0" // is base64 too
	for name, s := range published() {
		v := verifier(t, s.rules)
		now := s.at
		if err := v.Verify(secrets(s.secret), s.message, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.Verify(secrets(other, s.secret), s.message, now); err != nil {
			t.Errorf("%s, by the second secret: %v", name, err)
		}
		if err := v.Verify(secrets(other), s.message, now); !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s, by another secret: %v", name, err)
		}
		changed := s.message
		changed.Body = []byte(string(s.message.Body) + "&x=1")
		if err := v.Verify(secrets(s.secret), changed, now); !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s, another body: %v", name, err)
		}
		for header := range s.message.Header {
			without := message(string(s.message.Body))
			for other, values := range s.message.Header {
				if other != header {
					without.Header[other] = values
				}
			}
			if err := v.Verify(secrets(s.secret), without, now); !errors.Is(err, webhook.ErrUnverified) {
				t.Errorf("%s, without %s: %v", name, header, err)
			}
		}
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	for name, s := range published() {
		if s.at.IsZero() {
			continue
		}
		for _, away := range []time.Duration{-webhook.DefaultTolerance, webhook.DefaultTolerance} {
			v := verifier(t, s.rules)
			if err := v.Verify(secrets(s.secret), s.message, s.at.Add(away)); err != nil {
				t.Errorf("%s, %s away: %v", name, away, err)
			}
			if err := v.Verify(secrets(s.secret), s.message, s.at.Add(away+away/time.Duration(300))); !errors.Is(err, webhook.ErrUnverified) {
				t.Errorf("%s, a second more than %s away: %v", name, away, err)
			}
			s.rules.Tolerance = time.Hour
			if err := verifier(t, s.rules).Verify(secrets(s.secret), s.message, s.at.Add(12*away)); err != nil {
				t.Errorf("%s, with another tolerance: %v", name, err)
			}
			s.rules.Tolerance = 0
		}
	}
}

func TestStripe(t *testing.T) {
	t.Parallel()
	const at, body = "1492774577", `{"id":"evt_1"}`
	good, old := stripe("whsec_new", at, body), stripe("whsec_old", at, body)
	now := time.Unix(1492774577, 0)
	for name, test := range map[string]struct {
		header string
		want   bool
	}{
		"one":                            {"t=" + at + ",v1=" + good, true},
		"spaces":                         {"t=" + at + ", v1=" + good, true},
		"rolled":                         {"t=" + at + ",v1=" + old + ",v1=" + good, true},
		"rolled, the other way round":    {"t=" + at + ",v1=" + good + ",v1=" + old, true},
		"test mode's too":                {"t=" + at + ",v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39,v1=" + good, true},
		"one that cannot be read":        {"t=" + at + ",v1=zz,v1=" + good, true},
		"another scheme alone":           {"t=" + at + ",v0=" + good, false},
		"no timestamp":                   {"v1=" + good, false},
		"two timestamps":                 {"t=" + at + ",t=" + at + ",v1=" + good, false},
		"another timestamp":              {"t=1492774578,v1=" + good, false},
		"no number":                      {"t=x,v1=" + stripe("whsec_new", "x", body), false},
		"milliseconds are not Stripe's":  {"t=" + at + "000,v1=" + stripe("whsec_new", at+"000", body), false},
		"old secret":                     {"t=" + at + ",v1=" + old, false},
		"cut":                            {"t=" + at + ",v1=" + good[:62], false},
		"empty":                          {"", false},
		"more signatures than are tried": {"t=" + at + strings.Repeat(",v1="+old, 16) + ",v1=" + good, false},
	} {
		err := verifier(t, webhook.Rules{Scheme: webhook.Stripe}).Verify(secrets("whsec_new"), message(body, "Stripe-Signature", test.header), now)
		if (err == nil) != test.want || err != nil && !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s: %v, want verified %v", name, err, test.want)
		}
	}
	for _, both := range [][][]byte{secrets("whsec_new", "whsec_old"), secrets("whsec_old", "whsec_new")} {
		for _, signature := range []string{good, old} {
			if err := verifier(t, webhook.Rules{Scheme: webhook.Stripe}).Verify(both, message(body, "Stripe-Signature", "t="+at+",v1="+signature), now); err != nil {
				t.Errorf("one of two secrets: %v", err)
			}
		}
	}
	twice := message(body, "Stripe-Signature", "t="+at+",v1="+good, "Stripe-Signature", "t="+at+",v1="+good)
	if err := verifier(t, webhook.Rules{Scheme: webhook.Stripe}).Verify(secrets("whsec_new"), twice, now); !errors.Is(err, webhook.ErrUnverified) {
		t.Errorf("header twice: %v", err)
	}
}

func TestStandard(t *testing.T) {
	t.Parallel()
	key := "01234567890123456789012345678901"
	sign := func(id, at, body string) string {
		return "v1," + base64.StdEncoding.EncodeToString(sum(key, id+"."+at+"."+body))
	}
	now := time.Unix(1700000000, 0)
	good := sign("msg_1", "1700000000", "{}")
	for name, test := range map[string]struct {
		id, at, signature string
		want              bool
	}{
		"one":                             {"msg_1", "1700000000", good, true},
		"rotated":                         {"msg_1", "1700000000", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= " + good, true},
		"asymmetric too":                  {"msg_1", "1700000000", "v1a,AAAA " + good, true},
		"asymmetric alone":                {"msg_1", "1700000000", "v1a" + good[2:], false},
		"no version":                      {"msg_1", "1700000000", good[3:], false},
		"another id":                      {"msg_2", "1700000000", good, false},
		"no id":                           {"", "1700000000", sign("", "1700000000", "{}"), false},
		"full stop moved into the id":     {"msg_1.17", "1700000000", sign("msg_1.17", "1700000000", "{}"), false},
		"full stop moved into the body":   {"msg_1", "1700000000.0", sign("msg_1", "1700000000.0", "{}"), false},
		"RFC 3339 is not in the standard": {"msg_1", "2023-11-14T22:13:20Z", sign("msg_1", "2023-11-14T22:13:20Z", "{}"), false},
	} {
		m := message("{}", "webhook-id", test.id, "webhook-timestamp", test.at, "webhook-signature", test.signature)
		for _, secret := range []string{"whsec_" + base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(key))} {
			if err := verifier(t, webhook.Rules{Scheme: webhook.Standard}).Verify(secrets(secret), m, now); (err == nil) != test.want {
				t.Errorf("%s: %v, want verified %v", name, err, test.want)
			}
		}
	}
}

// What other providers sign, with keys of our own.
func TestHMAC(t *testing.T) {
	t.Parallel()
	const url, at, body = "https://mycompany.com/myapp.php?foo=1&bar=2", "1700000000123", `{"a":1}`
	wide := hmac.New(sha512.New, []byte("key"))
	wide.Write([]byte(body))
	now := time.Unix(1700000000, 0)
	iso := "2023-11-14T22:13:20Z"
	base := webhook.Rules{Scheme: webhook.HMAC, Header: "X-Signature"}
	with := func(change func(*webhook.Rules)) webhook.Rules { r := base; change(&r); return r }
	parts := func(texts ...string) (all []webhook.Part) {
		for _, text := range texts {
			part, err := webhook.ParsePart(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, part)
		}
		return all
	}
	for name, test := range map[string]struct {
		rules   webhook.Rules
		headers []string
	}{
		"body, hex":       {base, []string{"X-Signature", hex.EncodeToString(sum("key", body))}},
		"body, capitals":  {base, []string{"X-Signature", strings.ToUpper(hex.EncodeToString(sum("key", body)))}},
		"header repeated": {base, []string{"X-Signature", "00", "x-signature", hex.EncodeToString(sum("key", body))}},
		"sha512":          {with(func(r *webhook.Rules) { r.Algorithm = webhook.SHA512 }), []string{"X-Signature", hex.EncodeToString(wide.Sum(nil))}},
		"url and body":    {with(func(r *webhook.Rules) { r.Encoding, r.Content = webhook.Base64, parts("url", "body") }), []string{"X-Signature", base64.StdEncoding.EncodeToString(sum("key", url+body))}},
		"another header":  {with(func(r *webhook.Rules) { r.Content = parts("header:X-Id", "text:.", "body") }), []string{"X-Id", "7", "X-Signature", hex.EncodeToString(sum("key", "7."+body))}},
		"milliseconds": {with(func(r *webhook.Rules) {
			r.TimestampHeader, r.Content = "X-At", parts("method", "url", "body", "timestamp")
		}), []string{"X-At", at, "X-Signature", hex.EncodeToString(sum("key", "POST"+url+body+at))}},
		"RFC 3339":         {with(func(r *webhook.Rules) { r.TimestampHeader, r.Content = "X-At", parts("timestamp", "body") }), []string{"X-At", iso, "X-Signature", hex.EncodeToString(sum("key", iso+body))}},
		"time as a header": {with(func(r *webhook.Rules) { r.TimestampHeader, r.Content = "X-At", parts("header:x-at", "body") }), []string{"X-At", iso, "X-Signature", hex.EncodeToString(sum("key", iso+body))}},
	} {
		v := verifier(t, test.rules)
		if err := v.Verify(secrets("key"), message(body, test.headers...), now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.Verify(secrets("yek"), message(body, test.headers...), now); !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("%s, another key: %v", name, err)
		}
		if test.rules.TimestampHeader != "" {
			if err := v.Verify(secrets("key"), message(body, test.headers...), now.Add(time.Hour)); !errors.Is(err, webhook.ErrUnverified) {
				t.Errorf("%s, an hour later: %v", name, err)
			}
		}
	}
	unreadable := with(func(r *webhook.Rules) { r.TimestampHeader, r.Content = "X-At", parts("timestamp", "body") })
	m := message(body, "X-At", "yesterday", "X-Signature", hex.EncodeToString(sum("key", "yesterday"+body)))
	if err := verifier(t, unreadable).Verify(secrets("key"), m, now); !errors.Is(err, webhook.ErrUnverified) {
		t.Errorf("a time that cannot be read: %v", err)
	}
}

func TestUnusableSecrets(t *testing.T) {
	t.Parallel()
	for name, s := range published() {
		for what, bad := range map[string][][]byte{"none": nil, "empty": secrets(""), "one of two empty": secrets(s.secret, "")} {
			if err := verifier(t, s.rules).Verify(bad, s.message, s.at); !errors.Is(err, webhook.ErrSecrets) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	standard := published()["standard"]
	for _, bad := range []string{"whsec_", "whsec_not base64!"} {
		err := verifier(t, standard.rules).Verify(secrets(bad), standard.message, standard.at)
		if !errors.Is(err, webhook.ErrSecrets) || strings.Contains(fmt.Sprint(err), "not base64!") {
			t.Errorf("secret %q: %v", bad, err)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules webhook.Rules
		want  string
	}{
		"nothing":                 {webhook.Rules{}, "no such signature scheme"},
		"unknown scheme":          {webhook.Rules{Scheme: 9}, "no such signature scheme"},
		"negative tolerance":      {webhook.Rules{Scheme: webhook.GitHub, Tolerance: -1}, "negative"},
		"scheme with own header":  {webhook.Rules{Scheme: webhook.Stripe, Header: "X"}, "has its own"},
		"no header":               {webhook.Rules{Scheme: webhook.HMAC}, "header that has the signature is missing"},
		"unknown algorithm":       {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Algorithm: 9}, "no such algorithm"},
		"unknown encoding":        {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Encoding: 9}, "no such encoding"},
		"unknown part":            {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Content: []webhook.Part{{Kind: webhook.Body}, {Kind: 9}}}, "no such part"},
		"empty text":              {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Content: []webhook.Part{{Kind: webhook.Body}, {Kind: webhook.Text}}}, "is empty"},
		"body is not signed":      {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Content: []webhook.Part{{Kind: webhook.URL}}}, "has no body"},
		"timestamp is not signed": {webhook.Rules{Scheme: webhook.HMAC, Header: "X", TimestampHeader: "X-At"}, "make an old message young"},
		"timestamp from nowhere":  {webhook.Rules{Scheme: webhook.HMAC, Header: "X", Content: []webhook.Part{{Kind: webhook.Timestamp}, {Kind: webhook.Body}}}, "no header is named"},
	} {
		if _, err := webhook.New(test.rules); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for _, bad := range []string{"", "header:", "text:", "bodies"} {
		if part, err := webhook.ParsePart(bad); err == nil {
			t.Errorf("part %q is %v", bad, part)
		}
	}
}

// Whatever is in the headers: no panic, and nothing is verified that was not
// signed.
func FuzzHeaders(f *testing.F) {
	for _, s := range published() {
		var signature, at string
		for name, values := range s.message.Header {
			if strings.HasSuffix(name, "Timestamp") {
				at = values[0]
			} else if !strings.HasSuffix(name, "Id") {
				signature = values[0]
			}
		}
		f.Add(signature, at, "msg_1", string(s.message.Body))
	}
	f.Add("t=1492774577,v1=00,t=1,v1", "1492774577", "evt_1", "{}")
	f.Add("v1, v1,= v1,AAAA v1a,", "-1", ".", "")
	f.Add("sha256=", "99999999999999999999", "\x00", "%zz=1")
	f.Fuzz(func(t *testing.T, signature, at, id, body string) {
		for _, s := range published() {
			header := map[string][]string{}
			for name := range s.message.Header {
				switch {
				case strings.HasSuffix(name, "Timestamp"):
					header[name] = []string{at}
				case strings.HasSuffix(name, "Id"):
					header[name] = []string{id}
				default:
					header[name] = []string{signature}
				}
			}
			header["Stripe-Signature"] = []string{signature}
			m := actions.Message{Method: "POST", URL: "https://a.test/", Header: header, Body: []byte(body)}
			for _, rules := range []webhook.Rules{s.rules, {Scheme: webhook.Stripe}} {
				if err := verifier(t, rules).Verify(secrets("c2VjcmV0IG9mIHRoZSB0ZXN0"), m, s.at); !errors.Is(err, webhook.ErrUnverified) {
					t.Errorf("verified by a secret that signed nothing: %v", err)
				}
			}
		}
	})
}
