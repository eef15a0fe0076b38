package signing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/jws"
	"github.com/onceward/onceward/ledger"
)

// ReceiptType is the type of a signed receipt in its JOSE header.
const ReceiptType = "onceward-receipt+jwt"

// Receipt is what a signed receipt says.
type Receipt struct {
	Issuer      string `json:"iss"`
	OperationID string `json:"sub"`
	Tenant      string `json:"tenant"`
	ActionType  string `json:"action_type"`
	State       string `json:"state"`
	// KeyHash is the SHA-256 of the idempotency key, in hex: the key itself may
	// say more than a reader should know.
	KeyHash           string `json:"key_sha256"`
	ArgumentsHash     string `json:"args_sha256"`
	ProviderReference string `json:"provider_reference"`
	ReceiptHash       string `json:"receipt_sha256"` // of the bytes in Receipt
	Receipt           []byte `json:"receipt"`        // JSON, as every caller gets it; base64 here
	Attempts          int    `json:"attempts"`
	// ConfirmedAt is when it was confirmed, whatever was learned afterwards.
	ConfirmedAt time.Time `json:"confirmed_at"`
	// Incident: the provider named a second effect.
	Incident bool `json:"incident,omitempty"`
}

// ErrNoReceipt: the operation has none.
var ErrNoReceipt = errors.New("signing: the operation has no receipt")

// Receipt signs the receipt of an operation that succeeded. One state of an
// operation and one key make one text. It fails with ErrNoKey and ErrNoReceipt.
func (s *Signer) Receipt(op ledger.Operation) (string, error) {
	if op.State != ledger.Succeeded || len(op.Receipt) == 0 {
		return "", ErrNoReceipt
	}
	key, content := sha256.Sum256([]byte(op.Key)), sha256.Sum256(op.Receipt)
	return s.sign(ReceiptType, Receipt{
		Issuer: s.o.Issuer, OperationID: op.ID, Tenant: op.Tenant, ActionType: op.ActionType, State: string(op.State),
		KeyHash: hex.EncodeToString(key[:]), ArgumentsHash: hex.EncodeToString(op.ArgsHash[:]),
		ProviderReference: op.ProviderReference,
		ReceiptHash:       hex.EncodeToString(content[:]), Receipt: op.Receipt,
		Attempts: op.Attempt, ConfirmedAt: op.SettledAt.UTC(), Incident: op.Incident != "",
	})
}

// ErrNotOurs: the receipt is not one that a holder of these keys signed.
var ErrNotOurs = errors.New("signing: not a receipt that one of these keys signed")

// VerifyReceipt reads a signed receipt and checks it by the public keys of an
// installation (ParseKeys). issuer, where it is not empty, is who must have
// signed it. It asks nobody. The error says what is wrong, and wraps ErrNotOurs.
func VerifyReceipt(text, issuer string, keys map[string]ed25519.PublicKey) (Receipt, error) {
	statement, err := jws.Parse(text, ReceiptType)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: it is no signed receipt", ErrNotOurs)
	}
	key, ok := keys[statement.KeyID]
	if !ok {
		return Receipt{}, fmt.Errorf("%w: they do not have key %.40q", ErrNotOurs, statement.KeyID)
	}
	payload, err := statement.Verify(key)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: the signature does not match: it was changed", ErrNotOurs)
	}
	var r Receipt
	if err := json.Unmarshal(payload, &r); err != nil {
		return Receipt{}, fmt.Errorf("%w: what was signed cannot be read: is this program older than the receipt?", ErrNotOurs)
	}
	if issuer != "" && r.Issuer != issuer {
		return Receipt{}, fmt.Errorf("%w: it is from %s, not from %s", ErrNotOurs, r.Issuer, issuer)
	}
	if sum := sha256.Sum256(r.Receipt); hex.EncodeToString(sum[:]) != r.ReceiptHash {
		return Receipt{}, fmt.Errorf("%w: receipt_sha256 is not that of the receipt", ErrNotOurs)
	}
	return r, nil
}

// ParseKeys reads a JSON Web Key Set.
func ParseKeys(text []byte) (map[string]ed25519.PublicKey, error) { return jws.ParseKeys(text) }

// Indented is the receipt's JSON for people; what is no JSON is shown as base64.
func (r Receipt) Indented() string {
	var out bytes.Buffer
	if err := json.Indent(&out, r.Receipt, "", "  "); err != nil {
		return base64.StdEncoding.EncodeToString(r.Receipt)
	}
	return out.String()
}
