package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of what is kept.
const (
	// MaxReceiptBytes bounds a stored receipt; a longer one is kept as its
	// size and SHA-256.
	MaxReceiptBytes = 64 << 10
	// MaxTextBytes bounds details, evidence and notes.
	MaxTextBytes = 2000
)

// StorableReceipt returns a receipt that the database takes, whatever the
// provider sent: a success must never turn into a failure because of a byte
// that Postgres refuses. A JSON object that is clean is returned as it is,
// byte for byte.
func StorableReceipt(receipt []byte) []byte {
	switch {
	case len(receipt) == 0:
		return []byte("{}")
	case len(receipt) > MaxReceiptBytes:
		return digest("receipt_too_large", receipt)
	case !utf8.Valid(receipt) || !json.Valid(receipt) || bytes.TrimLeft(receipt, " \t\r\n")[0] != '{':
		return digest("receipt_unreadable", receipt)
	}
	return receipt
}

func digest(what string, receipt []byte) []byte {
	return fmt.Appendf(nil, `{"%s":true,"bytes":%d,"sha256":"%x"}`, what, len(receipt), sha256.Sum256(receipt))
}

// StorableText returns text that the database takes: valid UTF-8 without NUL,
// at most MaxTextBytes long.
func StorableText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= MaxTextBytes {
		return s
	}
	cut := MaxTextBytes - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
