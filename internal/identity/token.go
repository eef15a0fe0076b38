package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/policy"
)

const (
	// maxTokenBytes is larger than the tokens of issuers that put groups into
	// them, and less than the transport takes as metadata.
	maxTokenBytes = 12 << 10
	// clockMargin is how far the ledger's clock may be from ours before a token
	// that was used could be forgotten too soon.
	clockMargin = 5 * time.Minute
)

// allAlgorithms are those that a file may allow. Symmetric ones and "none" are
// not among them: an issuer's keys are public.
func allAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// claims are a token's payload. A payload that has a name twice has no claims:
// two readers could see two tokens in it.
type claims map[string]any

func parseClaims(payload []byte) (claims, bool) {
	var c claims
	err := json.Unmarshal(payload, &c)
	return c, err == nil && c != nil
}

// tokenForm is the compact form of a signed token; the library would take white
// space in it, and other forms.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*$`)

// issuerOf finds the issuer that a token says it is from. Nothing of it is
// believed but where to look.
func issuerOf(issuers map[string]*issuer, token string) (*issuer, error) {
	if len(token) > maxTokenBytes {
		return nil, refuse("the token is larger than %d bytes", maxTokenBytes)
	}
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return nil, refuse("it is neither an API key nor a token")
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil, refuse("the token is malformed")
	}
	c, ok := parseClaims(payload)
	name, isText := c["iss"].(string)
	if !ok || !isText {
		return nil, refuse("the token is malformed, or names no issuer")
	}
	found := issuers[name]
	if found == nil {
		return nil, refuse("the token is from an issuer that is not configured")
	}
	return found, nil
}

// verified is what a good token says.
type verified struct {
	principal   policy.Principal
	id          [32]byte // of a token for one use: a hash over issuer and jti
	usableUntil time.Time
}

// verify checks a token that says it is from this issuer.
func (i *issuer) verify(ctx context.Context, token string, now time.Time) (verified, error) {
	payload, err := i.checkSignature(ctx, token)
	if err != nil {
		return verified{}, err
	}
	c, ok := parseClaims(payload)
	if !ok || c["iss"] != i.URL {
		return verified{}, refuse("the token is malformed, or names another issuer")
	}
	expires, err := i.checkTimes(c, now)
	if err != nil {
		return verified{}, err
	}
	if !slices.ContainsFunc(texts(c["aud"]), func(a string) bool { return slices.Contains(i.Audiences, a) }) {
		return verified{}, refuse("the token of issuer %s is for another audience", i.Name)
	}
	v := verified{usableUntil: expires.Add(*i.Leeway + clockMargin)}
	if v.principal, err = i.principal(c); err != nil {
		return verified{}, err
	}
	if i.OneTime {
		id, _ := c["jti"].(string)
		if id == "" {
			return verified{}, refuseProven(v.principal, "the token has no jti, which its issuer must give: one_time is set")
		}
		v.id = sha256.Sum256([]byte(i.URL + "\x00" + id))
	}
	return v, nil
}

// checkSignature returns the payload of a token that this issuer has signed.
// Keys that the token brings along or refers to are not looked at.
func (i *issuer) checkSignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, i.algorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, refuse("the token is malformed, or signed with an algorithm that issuer %s may not use", i.Name)
	}
	header := signed.Signatures[0].Protected
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if i.TokenType != "" && !strings.EqualFold(strings.TrimPrefix(strings.ToLower(kind), "application/"), i.TokenType) {
		return nil, refuse("the token of issuer %s is not of the type %s", i.Name, i.TokenType)
	}
	candidates, err := i.keys.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	for _, key := range candidates {
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue // a key is for the algorithm that it was published for
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, refuse("the signature of the token is not issuer %s's", i.Name)
}

func (i *issuer) checkTimes(c claims, now time.Time) (expires time.Time, err error) {
	expires, ok := moment(c["exp"])
	if !ok {
		return expires, refuse("the token of issuer %s does not say when it expires", i.Name)
	}
	issued, ok := moment(c["iat"])
	if !ok {
		return expires, refuse("the token of issuer %s does not say when it was issued", i.Name)
	}
	begins := issued
	if c["nbf"] != nil {
		if begins, ok = moment(c["nbf"]); !ok {
			return expires, refuse("the token of issuer %s does not say when it begins", i.Name)
		}
	}
	switch leeway := *i.Leeway; {
	case !now.Before(expires.Add(leeway)):
		return expires, refuse("the token of issuer %s has expired", i.Name)
	case issued.After(now.Add(leeway)), begins.After(now.Add(leeway)):
		return expires, refuse("the token of issuer %s is from the future", i.Name)
	case expires.Sub(issued) > i.MaxLifetime:
		return expires, refuse("the token of issuer %s lives longer than %s", i.Name, i.MaxLifetime)
	}
	return expires, nil
}

// moment reads a NumericDate (RFC 7519). What is not between 1970 and 9999 is no
// date.
func moment(v any) (time.Time, bool) {
	seconds, ok := v.(float64)
	if !ok || !(seconds >= 0 && seconds < 253402300800) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// texts are the texts of a claim that is one or a list of them; nil for
// everything else.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		list := make([]string, 0, len(v))
		for _, each := range v {
			text, ok := each.(string)
			if !ok {
				return nil
			}
			list = append(list, text)
		}
		return list
	default:
		return nil
	}
}
