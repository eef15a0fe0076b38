package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	providerKeyFile = "provider-key-secret"
	sealingFile     = "sealing-keyset.json"
	signingFile     = "signing-keys.json"
	secretBytes     = 32
)

// Secrets are the loaded secrets. They are safe for concurrent use.
type Secrets struct {
	// ProviderKey is the 32-byte secret of provider keys. It must never
	// change: another secret means other keys for the same operations.
	ProviderKey []byte
	dir         string
	keys        atomic.Pointer[keys]
}

// keys are those that are rotated, as the files last had them. They are not
// changed.
type keys struct {
	sealing sealing
	signing signing
}

// Create makes a new set of secrets in dir, which is created with mode 0700.
// It refuses to overwrite an existing one.
func Create(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	seals, err := sealing{}.with()
	if err != nil {
		return err
	}
	signs, err := signing{}.with()
	if err != nil {
		return err
	}
	// The provider key secret comes last: Load wants it, so an interrupted
	// Create leaves a folder that is refused, not one that is half used.
	if err := writeNew(filepath.Join(dir, sealingFile), seals.raw); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, signingFile), signs.raw); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, providerKeyFile), []byte(hex.EncodeToString(secret)+"\n")); err != nil {
		return err
	}
	// A ledger remembers whose it is: what it was told of must outlive a power cut.
	return syncDir(dir)
}

// Exist reports whether dir holds a set of secrets, whole or in part.
func Exist(dir string) bool {
	for _, name := range []string{providerKeyFile, sealingFile, signingFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Load reads the secrets in dir. It refuses files that others may read. A folder
// from before there were signing keys has none.
func Load(dir string) (*Secrets, error) {
	secret, err := readProviderKey(dir)
	if err != nil {
		return nil, err
	}
	k, err := readKeys(dir)
	if err != nil {
		return nil, err
	}
	s := &Secrets{ProviderKey: secret, dir: dir}
	s.keys.Store(k)
	return s, nil
}

func readProviderKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, providerKeyFile)
	encoded, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("secrets: %s: want %d bytes in hex", path, secretBytes)
	}
	return secret, nil
}

func readKeys(dir string) (*keys, error) {
	seals, err := readSealing(dir)
	if err != nil {
		return nil, err
	}
	signs, err := readSigning(dir)
	if err != nil {
		return nil, err
	}
	return &keys{seals, signs}, nil
}

// Fingerprint identifies the provider key secret without telling it. The
// ledger remembers it, so that a replica with another secret is refused.
func (s *Secrets) Fingerprint() [32]byte {
	return sha256.Sum256(append([]byte("onceward provider key fingerprint\x00"), s.ProviderKey...))
}

// SigningKeys are the keys to sign and to verify with: next, primary and old, in
// the order that they were made in. At most one is the primary; none where the
// folder has no signing keys.
func (s *Secrets) SigningKeys() []SigningKey {
	return slices.Clone(s.keys.Load().signing.keys)
}

// Seal encrypts the arguments of an operation. What is sealed for one
// operation cannot be opened as another's.
func (s *Secrets) Seal(plain []byte, tenant, operationID string) ([]byte, error) {
	return s.keys.Load().sealing.aead.Encrypt(plain, associated(tenant, operationID))
}

// Unseal decrypts what Seal made. It fails when the data was altered, belongs
// to another operation, or was sealed under a key that is gone.
func (s *Secrets) Unseal(sealed []byte, tenant, operationID string) ([]byte, error) {
	plain, err := s.keys.Load().sealing.aead.Decrypt(sealed, associated(tenant, operationID))
	if err != nil {
		return nil, fmt.Errorf("secrets: the arguments of operation %s cannot be opened: altered, or sealed with a key that this installation does not have", operationID)
	}
	return plain, nil
}

func associated(tenant, operationID string) []byte {
	return []byte(tenant + "\x00" + operationID)
}
