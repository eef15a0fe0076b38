package declared

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
)

// Places of a key.
const (
	placeHeader   = "header"
	placeQuery    = "query"
	placeField    = "field"
	placeTemplate = "template"
	placeNone     = "none"
)

// Forms of a key.
const (
	formBase32Hex = "base32hex"
	formHex       = "hex"
	formUUID      = "uuid"
)

// keys say how our key goes to a provider. A nil *keys is none.
type keys struct {
	place      string
	name       string   // of the header or parameter
	path       []string // of the field
	form       string
	prefix     string
	honouredBy string // header that a success must carry; empty for none
	replayedBy *expr.Expression
	rules      actions.KeyRules
}

// keys compiles the key rules of an action: its own, else the provider's.
func (c *compiler) keys(field string, k *definition.Keys) *keys {
	if k == nil || k.Place == placeNone {
		return nil
	}
	out := &keys{
		place: k.Place, name: k.Name, form: k.Form, prefix: k.Prefix, honouredBy: k.HonouredBy,
		replayedBy: c.expression(c.envs.answer, field+".replayed_by", k.ReplayedBy),
		rules:      keyRules(k),
	}
	switch k.Place {
	case placeHeader, placeQuery, placeField:
		if k.Name == "" {
			c.bad(field+".name", "place: %s wants a name", k.Place)
		}
		out.path = strings.Split(k.Name, ".")
	case placeTemplate:
	default:
		c.bad(field+".place", "%q is no place of a key", k.Place)
	}
	c.keyForm(field, k)
	return out
}

// keyForm compares the form of our keys with what the provider takes.
func (c *compiler) keyForm(field string, k *definition.Keys) {
	var length int
	var alphabet string
	switch k.Form {
	case "", formBase32Hex:
		length, alphabet = actions.ProviderKeyLength, "0123456789abcdefghijklmnopqrstuv"
	case formHex:
		length, alphabet = 32, "0123456789abcdef"
	case formUUID:
		length, alphabet = 36, "0123456789abcdef-"
	default:
		c.bad(field+".form", "%q is no form of a key: want base32hex, hex or uuid", k.Form)
		return
	}
	if length += len(k.Prefix); k.MaxLength > 0 && length > k.MaxLength {
		c.bad(field+".max_length", "our keys have %d characters in this form, and the provider takes %d", length, k.MaxLength)
	}
	if k.Alphabet == "" {
		return
	}
	allowed, err := regexp.Compile("^(?:" + k.Alphabet + ")*$")
	switch {
	case err != nil:
		c.bad(field+".alphabet", "is no RE2 class: %v", err)
	case !allowed.MatchString(k.Prefix + alphabet):
		c.bad(field+".alphabet", "our keys are made of %s, which is not all in %s: choose another form", k.Prefix+alphabet, k.Alphabet)
	}
}

// maxMargin bounds the default margin of a key's window.
const maxMargin = time.Hour

// defaultInFlight is how long a write may be worked on where nobody says: longer
// than the gateways of most providers keep a request.
const defaultInFlight = time.Minute

// keyRules are what the contract promises about keys. A key that is executed
// again while the first is worked on protects nothing when it matters, so that
// it is not honoured; nor is one whose window is not published.
func keyRules(k *definition.Keys) actions.KeyRules {
	if k.Window == 0 || k.InFlight == "executes" {
		return actions.KeyRules{}
	}
	rules := actions.KeyRules{
		Honoured: true, MaxLength: k.MaxLength, Window: k.Window.Std(), Margin: k.Margin.Std(),
		StoresFailures: k.Stores != "successes" && k.Stores != "latest",
	}
	if k.InFlight != "conflict" && k.InFlight != "waits" {
		rules.InFlight = cmp.Or(k.InFlightTime.Std(), defaultInFlight)
	}
	if rules.Margin == 0 {
		rules.Margin = min(rules.Window/20, maxMargin)
	}
	return rules
}

// shape brings the key of a call into the provider's form: the same key always
// into the same, which nobody can guess who does not know the key. Without keys
// there is none.
func (k *keys) shape(key string) (string, error) {
	if k == nil {
		return key, nil
	}
	if key == "" {
		// The provider would take it for a request without a key.
		return "", errors.New("the call has no provider key")
	}
	switch k.form {
	case formHex:
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:16])
	case formUUID:
		key = expr.UUIDOf(key)
	}
	return k.prefix + key, nil
}

// put sets the key in a body that is an object, at a dotted path.
func (k *keys) put(body any, key string) error {
	at, ok := body.(map[string]any)
	for i, name := range k.path {
		if !ok {
			return fmt.Errorf("the key's place %s is inside of something that is no object", k.name)
		}
		next, taken := at[name]
		if i == len(k.path)-1 {
			if taken {
				return fmt.Errorf("the body has %s already, where the key goes", k.name)
			}
			at[name] = key
			return nil
		}
		if !taken {
			next = map[string]any{}
			at[name] = next
		}
		at, ok = next.(map[string]any)
	}
	return nil
}
