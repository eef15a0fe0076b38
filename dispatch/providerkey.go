package dispatch

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/onceward/onceward/actions"
)

var keyEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// providerKeys derive the idempotency keys that providers see: an HMAC of
// tenant, operation and epoch, so that a key is stable across attempts, restarts
// and replicas, cannot be guessed (a provider may let one user of an account
// read another's stored answer by its key) and tells the provider nothing. They
// are safe for concurrent use.
type providerKeys struct{ macs sync.Pool }

// mac is an HMAC that has the secret in it, and a place for what it reads: to
// make them anew for each key took most of the time.
type mac struct {
	hash.Hash
	text []byte
}

func newProviderKeys(secret []byte) *providerKeys {
	secret = bytes.Clone(secret)
	fresh := func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }
	return &providerKeys{macs: sync.Pool{New: fresh}}
}

func (k *providerKeys) of(tenant, operationID string, epoch int) string {
	m := k.macs.Get().(*mac) //nolint:forcetypeassert // it has nothing else
	defer k.macs.Put(m)
	m.text = m.text[:0]
	for _, part := range [...]string{"onceward provider key v1", tenant, operationID} {
		m.text = binary.BigEndian.AppendUint64(m.text, uint64(len(part)))
		m.text = append(m.text, part...)
	}
	m.text = binary.BigEndian.AppendUint64(m.text, uint64(epoch))
	m.Reset()
	m.Write(m.text)
	m.text = m.Sum(m.text[:0])
	// Read and written in one place: what is encoded comes after it.
	sum := len(m.text)
	m.text = keyEncoding.AppendEncode(m.text, m.text)
	return string(m.text[sum:][:actions.ProviderKeyLength])
}
