package privatepg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MinMajor is the oldest major version of Postgres that is used.
const MinMajor = 14

// EnvBin names the environment variable that holds the folder of Postgres'
// programs. When it is set, no other place is looked at.
const EnvBin = "ONCEWARD_POSTGRES_BIN"

// ErrNotFound means that this machine has no usable Postgres programs and that
// they could not be downloaded. The text of the error that wraps it says where
// was looked and what to do.
var ErrNotFound = errors.New("no Postgres programs found")

// Programs are the programs of one Postgres installation.
type Programs struct {
	Dir     string // the folder that holds initdb and postgres
	Version string // as postgres tells it, such as "15.13"
	Major   int    // such as 15
}

func (p Programs) initdb() string   { return filepath.Join(p.Dir, "initdb") }
func (p Programs) postgres() string { return filepath.Join(p.Dir, "postgres") }

// Find looks for the programs of Postgres 14 or later, in this order: the
// folder named by ONCEWARD_POSTGRES_BIN (if it is set and wrong, that is an
// error), PATH, pg_config, the usual folders of Linux distributions, Homebrew
// and Postgres.app, an earlier download, and last a download with npm of a
// pinned and checksummed build. A download is told to log (nil discards that).
//
// As root, programs count only if the account that Postgres will run as can
// execute them. The error wraps [ErrNotFound] when there is nothing to be had.
func Find(ctx context.Context, log *slog.Logger) (Programs, error) {
	acct, err := serverAccount()
	if err != nil {
		return Programs{}, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return newFinder(acct, log).find(ctx, 0)
}

// finder is what the search depends on.
type finder struct {
	acct   *account
	log    *slog.Logger
	getenv func(string) string
	globs  []string
	pin    pin
	// platform is the running system in npm's words, such as "linux-x64".
	platform string
	// caches are the folders for downloads, in the order of preference.
	caches []string
}

func newFinder(acct *account, log *slog.Logger) *finder {
	return &finder{
		acct:     acct,
		log:      log,
		getenv:   os.Getenv,
		globs:    usualFolders(),
		pin:      pinned(),
		platform: npmPlatform(runtime.GOOS, runtime.GOARCH),
		caches:   cacheFolders(acct),
	}
}

func usualFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Fedora, RHEL (PGDG)
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",
		"/opt/homebrew/opt/postgresql/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin", // built from source
	}
}

// find returns the first usable programs. With a wanted major version only
// that version is taken; if there are others, the error says which.
func (f *finder) find(ctx context.Context, major int) (Programs, error) {
	if dir := f.getenv(EnvBin); dir != "" {
		p, err := f.check(ctx, dir)
		if err != nil {
			return Programs{}, fmt.Errorf("privatepg: %s=%s cannot be used: %w", EnvBin, dir, err)
		}
		if major != 0 && p.Major != major {
			return Programs{}, &versionError{want: major, found: []Programs{p}}
		}
		return p, nil
	}
	var others []Programs
	var refused []string
	for dir := range f.installed(ctx) {
		p, err := f.check(ctx, dir)
		switch {
		case err == nil && (major == 0 || p.Major == major):
			return p, nil
		case err == nil:
			others = append(others, p)
		case !errors.Is(err, fs.ErrNotExist):
			refused = append(refused, err.Error())
		}
		if ctx.Err() != nil {
			return Programs{}, fmt.Errorf("privatepg: looking for Postgres: %w", ctx.Err())
		}
	}
	if major != 0 && major != f.pin.major {
		return Programs{}, &versionError{want: major, found: others}
	}
	p, err := f.downloaded(ctx)
	if err == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return Programs{}, fmt.Errorf("privatepg: downloading Postgres: %w", err)
	}
	if len(others) > 0 {
		return Programs{}, &versionError{want: major, found: others}
	}
	return Programs{}, notFoundError(append(refused, err.Error()))
}

func notFoundError(reasons []string) error {
	return fmt.Errorf("privatepg: %w (need initdb and postgres, version %d or later).\n"+
		"Install Postgres (Debian and Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17), "+
		"or run everything with: docker compose up\n"+
		"If Postgres is installed in an unusual place, set %s to the folder that holds initdb.\n"+
		"Looked on PATH, asked pg_config, looked in the usual folders; %s", ErrNotFound, MinMajor, EnvBin, strings.Join(reasons, "; "))
}

// installed yields the folders that may hold programs, without doubles. Later
// places are not looked at when an earlier one is taken.
func (f *finder) installed(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		offer := func(dir string) bool {
			if dir == "" || seen[dir] {
				return true
			}
			seen[dir] = true
			return yield(dir)
		}
		for _, name := range []string{"initdb", "postgres"} {
			path, err := exec.LookPath(name)
			if err != nil {
				continue
			}
			// A single program may be linked into a folder on PATH while the
			// rest stays where it was installed.
			if path, err = filepath.EvalSymlinks(path); err == nil && !offer(filepath.Dir(path)) {
				return
			}
		}
		if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
			if !offer(strings.TrimSpace(string(out))) {
				return
			}
		}
		for _, pattern := range f.globs {
			dirs, err := filepath.Glob(pattern)
			if err != nil {
				continue
			}
			slices.SortFunc(dirs, func(a, b string) int { return slices.Compare(numbersIn(b), numbersIn(a)) })
			for _, dir := range dirs {
				if !offer(dir) {
					return
				}
			}
		}
	}
}

// numbersIn gives the numbers in a path, so that 9.6 sorts before 16.
func numbersIn(path string) []int {
	var all []int
	for _, digits := range regexp.MustCompile(`[0-9]{1,9}`).FindAllString(path, -1) {
		if n, err := strconv.Atoi(digits); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// check says what the programs in dir are. The error wraps fs.ErrNotExist when
// dir is not the folder of a server at all.
func (f *finder) check(ctx context.Context, dir string) (Programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Programs{}, err
	}
	p := Programs{Dir: dir}
	for _, path := range []string{p.initdb(), p.postgres()} {
		info, err := os.Stat(path)
		if err != nil {
			return Programs{}, err
		}
		if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return Programs{}, fmt.Errorf("%s is not a program", path)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := f.acct.command(ctx, p.postgres(), "--version").CombinedOutput()
	if err != nil {
		return Programs{}, fmt.Errorf("%s --version%s: %w%s", p.postgres(), f.acct.suffix(), err, quote(string(out)))
	}
	p.Version, p.Major, err = parseVersion(string(out))
	if err != nil {
		return Programs{}, fmt.Errorf("%s --version: %w", p.postgres(), err)
	}
	if p.Major < MinMajor {
		return Programs{}, fmt.Errorf("%s is Postgres %s, too old: %d or later is needed", dir, p.Version, MinMajor)
	}
	return p, nil
}

// parseVersion reads an answer such as "postgres (PostgreSQL) 15.13 (Debian
// 15.13-0+deb12u1)".
func parseVersion(answer string) (version string, major int, err error) {
	m := regexp.MustCompile(`^postgres \(PostgreSQL\) (([0-9]{1,4})[^ \n]*)`).FindStringSubmatch(answer)
	if m == nil {
		return "", 0, fmt.Errorf("cannot read the version in %q", strings.TrimSpace(answer))
	}
	major, err = strconv.Atoi(m[2])
	return m[1], major, err
}

// versionError means that a cluster exists and that the programs of its major
// version do not.
type versionError struct {
	want  int
	found []Programs
	data  string // filled in by who knows the folder
}

func (e *versionError) Error() string {
	var have []string
	for _, p := range e.found {
		have = append(have, fmt.Sprintf("Postgres %s in %s", p.Version, p.Dir))
	}
	found := "none were found"
	if len(have) > 0 {
		found = "found were " + strings.Join(have, ", ")
	}
	return fmt.Sprintf("privatepg: the data in %s were made by Postgres %d and need its programs; %s. "+
		"Install Postgres %d or set %s to its folder, move the data with pg_upgrade or pg_dump, or name another folder; "+
		"the data were not touched", e.data, e.want, found, e.want, EnvBin)
}
