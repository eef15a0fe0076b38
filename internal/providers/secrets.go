package providers

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
)

// maxSecretBytes bounds a secret that comes from a file.
const maxSecretBytes = 64 << 10

// ResolveSecret reads a secret of a tenant from the environment or a file, anew
// each time, so that it can be rotated. "${tenant}" in the name of a file and
// "${TENANT}" in the name of a variable are the tenant's. Its errors name the
// reference and never hold the secret.
func ResolveSecret(ref definition.Secret, tenant string) (string, error) {
	if ref.File != "" {
		return secretFile(ref.File, tenant)
	}
	name := ref.Env
	if strings.Contains(name, "${TENANT}") {
		own, err := upperName(tenant)
		if err != nil {
			return "", err
		}
		name = strings.ReplaceAll(name, "${TENANT}", own)
	}
	value, ok := os.LookupEnv(name)
	if !ok || value == "" {
		return "", fmt.Errorf("secret: the environment variable %s is not set", name)
	}
	return value, nil
}

func secretFile(file, tenant string) (string, error) {
	// A tenant's name becomes one element of the path, never more and never less.
	if own := strings.Contains(file, "${tenant}"); own && (tenant == "" || strings.ContainsAny(tenant, "/\\\x00") || tenant == ".." || tenant == ".") {
		return "", errors.New("secret: the tenant's name cannot be a part of a path")
	}
	name := strings.ReplaceAll(file, "${tenant}", tenant)
	if err := regular(name); err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("secret: %w", err)
	case len(data) > maxSecretBytes:
		return "", fmt.Errorf("secret: %s is longer than %d bytes", name, maxSecretBytes)
	}
	value := strings.TrimRight(string(data), " \t\r\n")
	if value == "" {
		return "", fmt.Errorf("secret: %s is empty", name)
	}
	return value, nil
}

// regular refuses what is no file with a content: a pipe would be waited for.
func regular(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("secret: %s is no regular file", name)
	}
	return nil
}

// upperName is a tenant's name as a part of the name of a variable: upper case,
// with _ for -. Only lower-case letters, digits and - have one, because two
// tenants would share any other.
func upperName(tenant string) (string, error) {
	if tenant == "" || strings.Trim(tenant, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", errors.New("secret: a tenant whose name has more than lower-case letters, digits and - cannot have a variable of its own: use a file")
	}
	return strings.ReplaceAll(strings.ToUpper(tenant), "-", "_"), nil
}

// MissingSecrets returns a fault for each secret and each file of a certificate
// that is not there, in the order of providers and fields. Those of tenants are
// not looked for: which tenants there are is in the ledger.
func MissingSecrets(set *definition.Set) []definition.Fault {
	var faults []definition.Fault
	for _, name := range slices.Sorted(maps.Keys(set.Providers)) {
		p := set.Providers[name]
		secrets := p.Secrets()
		for _, field := range slices.Sorted(maps.Keys(secrets)) {
			ref := secrets[field]
			if strings.Contains(ref.File, "${tenant}") || strings.Contains(ref.Env, "${TENANT}") {
				continue
			}
			if _, err := ResolveSecret(ref, ""); err != nil {
				faults = append(faults, set.Fault(p.Place.File, field, strings.TrimPrefix(err.Error(), "secret: ")))
			}
		}
		certificates := certificatesOf(p)
		for _, field := range slices.Sorted(maps.Keys(certificates)) {
			if err := regular(certificates[field]); err != nil {
				faults = append(faults, set.Fault(p.Place.File, field, strings.TrimPrefix(err.Error(), "secret: ")))
			}
		}
	}
	return faults
}

// certificatesOf are the files of TLS that a provider names, by field.
func certificatesOf(p *definition.Provider) map[string]string {
	out := map[string]string{}
	add := func(field string, t *definition.TLS) {
		if t == nil {
			return
		}
		for name, file := range map[string]string{"ca": t.CA, "cert": t.Cert, "key": t.Key} {
			if file != "" {
				out[field+"."+name] = file
			}
		}
	}
	if p.HTTP != nil {
		add("http.tls", p.HTTP.TLS)
	}
	if p.GRPC != nil {
		add("grpc.tls", p.GRPC.TLS)
	}
	return out
}
