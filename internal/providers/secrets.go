package providers

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	// A tenant's name becomes one element of the path, never more.
	if strings.ContainsAny(tenant, `/\`) || tenant == ".." || tenant == "." {
		return "", errors.New("secret: the tenant's name cannot be a part of a path")
	}
	name := strings.ReplaceAll(file, "${tenant}", tenant)
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

// upperName is a tenant's name as a part of the name of a variable: upper case,
// with _ for -. A name with _ has none, because two tenants would share it.
func upperName(tenant string) (string, error) {
	if strings.Contains(tenant, "_") {
		return "", errors.New(`secret: a tenant whose name has "_" cannot have a variable of its own: use a file`)
	}
	return strings.ReplaceAll(strings.ToUpper(tenant), "-", "_"), nil
}

// MissingSecrets returns a fault for each secret that is not there. Those of
// tenants are not looked for: which tenants there are is in the ledger.
func MissingSecrets(set *definition.Set) []definition.Fault {
	var faults []definition.Fault
	for _, p := range set.Providers {
		for field, ref := range p.Secrets() {
			if strings.Contains(ref.File, "${tenant}") || strings.Contains(ref.Env, "${TENANT}") {
				continue
			}
			if _, err := ResolveSecret(ref, ""); err != nil {
				faults = append(faults, set.Fault(p.Place.File, field, strings.TrimPrefix(err.Error(), "secret: ")))
			}
		}
	}
	return faults
}
