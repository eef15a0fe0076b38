package secrets

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	providerKeyFile = "provider-key-secret"
	sealingFile     = "sealing-keyset.json"
	secretBytes     = 32
)

// Secrets are the loaded secrets. They are safe for concurrent use.
type Secrets struct {
	// ProviderKey is the 32-byte secret of provider keys. It must never
	// change: another secret means other keys for the same operations.
	ProviderKey []byte
	aead        tink.AEAD
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
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return fmt.Errorf("secrets: new keyset: %w", err)
	}
	var sealing bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&sealing)); err != nil {
		return fmt.Errorf("secrets: write keyset: %w", err)
	}
	// The provider key secret comes last: Load wants both, so an interrupted
	// Create leaves a folder that is refused, not one that is half used.
	if err := writeNew(filepath.Join(dir, sealingFile), sealing.Bytes()); err != nil {
		return err
	}
	return writeNew(filepath.Join(dir, providerKeyFile), []byte(hex.EncodeToString(secret)+"\n"))
}

func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("secrets: %s exists already and is not overwritten", path)
	}
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(fmt.Errorf("secrets: %w", err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("secrets: %w", err), f.Close())
	}
	return f.Close()
}

// Exist reports whether dir holds a set of secrets, whole or in part.
func Exist(dir string) bool {
	for _, name := range []string{providerKeyFile, sealingFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Load reads the secrets in dir. It refuses files that others may read.
func Load(dir string) (*Secrets, error) {
	encoded, err := readPrivate(filepath.Join(dir, providerKeyFile))
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("secrets: %s: want %d bytes in hex", filepath.Join(dir, providerKeyFile), secretBytes)
	}
	sealing, err := readPrivate(filepath.Join(dir, sealingFile))
	if err != nil {
		return nil, err
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(sealing)))
	if err != nil {
		return nil, fmt.Errorf("secrets: %s: %w", filepath.Join(dir, sealingFile), err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("secrets: %s: %w", filepath.Join(dir, sealingFile), err)
	}
	return &Secrets{ProviderKey: secret, aead: primitive}, nil
}

func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w (make a set with: onceward secrets create DIR)", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("secrets: %s can be read by others (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	return data, nil
}

// Fingerprint identifies the provider key secret without telling it. The
// ledger remembers it, so that a replica with another secret is refused.
func (s *Secrets) Fingerprint() [32]byte {
	return sha256.Sum256(append([]byte("onceward provider key fingerprint\x00"), s.ProviderKey...))
}

// Seal encrypts the arguments of an operation. What is sealed for one
// operation cannot be opened as another's.
func (s *Secrets) Seal(plain []byte, tenant, operationID string) ([]byte, error) {
	return s.aead.Encrypt(plain, associated(tenant, operationID))
}

// Unseal decrypts what Seal made. It fails when the data was altered, belongs
// to another operation, or was sealed under a key that is gone.
func (s *Secrets) Unseal(sealed []byte, tenant, operationID string) ([]byte, error) {
	plain, err := s.aead.Decrypt(sealed, associated(tenant, operationID))
	if err != nil {
		return nil, fmt.Errorf("secrets: the arguments of operation %s cannot be opened: altered, or sealed with a key that this installation does not have", operationID)
	}
	return plain, nil
}

func associated(tenant, operationID string) []byte {
	return []byte(tenant + "\x00" + operationID)
}
