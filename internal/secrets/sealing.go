package secrets

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const sealingPrefix = "seal-"

// sealing is the keyset that seals arguments. The zero value has no key. It is
// not changed.
type sealing struct {
	raw    []byte // as it is stored
	handle *keyset.Handle
	aead   tink.AEAD
}

func readSealing(dir string) (sealing, error) {
	path := filepath.Join(dir, sealingFile)
	raw, err := readPrivate(path)
	if err != nil {
		return sealing{}, err
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(raw)))
	if err != nil {
		return sealing{}, fmt.Errorf("secrets: %s: %w", path, err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return sealing{}, fmt.Errorf("secrets: %s: %w", path, err)
	}
	return sealing{raw: raw, handle: handle, aead: primitive}, nil
}

// with is the keyset with one key more: the next, or the primary of an empty
// one.
func (s sealing) with() (sealing, error) {
	manager := keyset.NewManager()
	if s.handle != nil {
		manager = keyset.NewManagerFromHandle(s.handle)
	}
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err == nil && s.handle == nil {
		err = manager.SetPrimary(id)
	}
	return sealingOf(manager, err)
}

// promoted is the keyset with another primary.
func (s sealing) promoted(id string) (sealing, error) {
	manager := keyset.NewManagerFromHandle(s.handle)
	number, err := sealingNumber(id)
	if err == nil {
		err = manager.SetPrimary(number)
	}
	return sealingOf(manager, err)
}

// without is the keyset with one key less.
func (s sealing) without(id string) (sealing, error) {
	manager := keyset.NewManagerFromHandle(s.handle)
	number, err := sealingNumber(id)
	if err == nil {
		err = manager.Delete(number)
	}
	return sealingOf(manager, err)
}

func sealingOf(manager *keyset.Manager, err error) (sealing, error) {
	if err != nil {
		return sealing{}, fmt.Errorf("secrets: sealing keyset: %w", err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return sealing{}, fmt.Errorf("secrets: sealing keyset: %w", err)
	}
	var raw bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&raw)); err != nil {
		return sealing{}, fmt.Errorf("secrets: sealing keyset: %w", err)
	}
	return sealing{raw: raw.Bytes(), handle: handle}, nil
}

func sealingNumber(id string) (uint32, error) {
	n, err := strconv.ParseUint(id[len(sealingPrefix):], 10, 32)
	return uint32(n), err
}

// list names the keys in the order that they were made in.
func (s sealing) list() []KeyInfo {
	info := s.handle.KeysetInfo()
	out := make([]KeyInfo, 0, len(info.GetKeyInfo()))
	for _, k := range info.GetKeyInfo() {
		out = append(out, KeyInfo{
			ID: sealingPrefix + strconv.FormatUint(uint64(k.GetKeyId()), 10), Kind: Sealing,
			State: primaryIf(k.GetKeyId() == info.GetPrimaryKeyId()),
		})
	}
	return aroundPrimary(out)
}
