package privatepg

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// DefaultDir is the usual folder for a private server called name (lower case
// letters, digits, "-" and "_"): /var/lib/onceward/name for root, "Application
// Support" on macOS, and the XDG state folder elsewhere. It does not create
// the folder.
func DefaultDir(name string) (string, error) {
	return place{
		goos:   runtime.GOOS,
		root:   os.Geteuid() == 0,
		getenv: os.Getenv,
		home:   os.UserHomeDir,
	}.defaultDir(name)
}

// place is what DefaultDir depends on.
type place struct {
	goos   string
	root   bool
	getenv func(string) string
	home   func() (string, error)
}

func (p place) defaultDir(name string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`).MatchString(name) {
		return "", fmt.Errorf("privatepg: %q cannot name a server: use lower case letters, digits, - and _", name)
	}
	if p.root {
		// Root's home is closed to the account that Postgres runs as.
		return filepath.Join("/var/lib/onceward", name), nil
	}
	// The XDG Base Directory Specification says that a relative path is to be
	// ignored.
	if state := p.getenv("XDG_STATE_HOME"); p.goos != "darwin" && filepath.IsAbs(state) {
		return filepath.Join(state, "onceward", name), nil
	}
	home, err := p.home()
	if err != nil {
		return "", fmt.Errorf("privatepg: no folder for server %q: %w", name, err)
	}
	if p.goos == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "onceward", name), nil
	}
	return filepath.Join(home, ".local", "state", "onceward", name), nil
}
