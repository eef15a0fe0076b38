package dispatch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"github.com/onceward/onceward/actions"
)

var keyEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// providerKey derives the idempotency key that the provider sees: an HMAC of
// tenant, operation and epoch, so that it is stable across attempts, restarts
// and replicas, cannot be guessed (a provider may let one user of an account
// read another's stored answer by its key) and tells the provider nothing.
func providerKey(secret []byte, tenant, operationID string, epoch int) string {
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{"onceward provider key v1", tenant, operationID} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(epoch))
	mac.Write(number[:])
	return keyEncoding.EncodeToString(mac.Sum(nil))[:actions.ProviderKeyLength]
}
