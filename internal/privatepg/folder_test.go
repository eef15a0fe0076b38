//go:build unix

package privatepg

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// folderOf opens a folder as a server does. The caller closes it.
func folderOf(t *testing.T, dir string) *folder {
	t.Helper()
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	f, err := openFolder(t.Context(), dir, acct)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// names lists all files below a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestFolderOfOthersIsRefusedAndNotTouched(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, file, want string }{
		{"other things", "photos/cat.jpg", "is not empty and was not made by onceward (it holds photos)"},
		{"a cluster itself", "PG_VERSION", "is itself the data folder of a Postgres"},
		{"data that are no cluster", "data/precious", "no file PG_VERSION"},
		{"a version that is none", "data/PG_VERSION", "does not hold a version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			write(t, filepath.Join(dir, tc.file), "x", 0o644)
			before := names(t, dir)
			_, err := Start(t.Context(), forTests(dir))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error is %v, want %q and the folder", err, tc.want)
			}
			if after := strings.ReplaceAll(names(t, dir), "\n/lock", ""); after != before {
				t.Errorf("folder held\n%s\nand holds\n%s", before, after)
			}
		})
	}
}

func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	write(t, filepath.Join(dir, "data", "PG_VERSION"), "11\n", 0o644)
	p, err := Find(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), forTests(dir))
	if err == nil {
		t.Fatal("data of another version were opened")
	}
	for _, want := range []string{"Postgres 11", "Postgres " + p.Version, dir, EnvBin, "not touched"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

// TestInterruptedInitdb uses an initdb that stops half-way.
func TestInterruptedInitdb(t *testing.T) {
	t.Parallel()
	top := openDir(t)
	dir := filepath.Join(top, "server")
	f := folderOf(t, dir)
	bin := filepath.Join(top, "bin")
	write(t, filepath.Join(bin, "initdb"), "#!/bin/sh\necho 15 >\"$2/PG_VERSION\"; echo no space left; exit 1\n", 0o755)
	log := slog.New(slog.DiscardHandler)
	err := f.makeCluster(t.Context(), Programs{Dir: bin}, "secret", true, log)
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("error is %v, want initdb's own words", err)
	}
	if made, err := f.hasCluster(); made || err != nil {
		t.Fatalf("half a cluster counts as one: %t, %v", made, err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	// What a kill -9 in the middle leaves.
	write(t, filepath.Join(dir, newClusterPrefix+"123", "PG_VERSION"), "15\n", 0o644)
	write(t, filepath.Join(dir, newClusterPrefix+"123.password"), "secret\n", 0o600)
	s := start(t, forTests(dir))
	if got := query(t, s, "SELECT 1::text"); got != "1" {
		t.Errorf("the server answers %q", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, newClusterPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLeftoverThatStays stands in a process called postgres for a server that
// was started by hand.
func TestLeftoverThatStays(t *testing.T) {
	t.Parallel()
	s := start(t, forTests(filepath.Join(openDir(t), "server")))
	other := &folder{dir: s.folder.dir} // without the lock
	pid, err := other.runningServer(t.Context())
	if err != nil || pid != s.PID() {
		t.Errorf("running server is %d, %v, want %d", pid, err, s.PID())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = other.awaitLeftover(ctx, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(s.PID())) {
		t.Errorf("error is %v, want ErrInUse with process id %d", err, s.PID())
	}
}

func TestAccountNeedsAWay(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(openDir(t), "closed")
	dir := filepath.Join(closed, "server")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if acct == nil { // not root: our own folders are open to us
		if err := acct.reaches(t.Context(), closed); err != nil {
			t.Error(err)
		}
		return
	}
	_, err = Start(t.Context(), forTests(dir))
	if err == nil || !strings.Contains(err.Error(), "cannot enter folder "+closed+";") {
		t.Errorf("error is %v, want one that names %s", err, closed)
	}
	if acct.name != "postgres" && acct.name != "nobody" {
		t.Errorf("as root, Postgres would run as %s", acct.name)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"no folder", Options{}, "Dir is empty"},
		{"port", Options{Dir: "x", Port: 65536}, "is not a port"},
		{"negative port", Options{Dir: "x", Port: -1}, "is not a port"},
		{"not a setting", Options{Dir: "x", Settings: map[string]string{"a=b -c c": "d"}}, "not the name of a setting"},
		{"all addresses", Options{Dir: "x", Settings: map[string]string{"listen_addresses": "*"}}, "127.0.0.1 only"},
		{"port as setting", Options{Dir: "x", Settings: map[string]string{"port": "1"}}, "Options.Port"},
	} {
		if _, err := tc.o.normalize(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want %q", tc.name, err, tc.want)
		}
	}
	o, err := Options{Dir: "x", Settings: map[string]string{"max_connections": "7"}}.normalize()
	if err != nil || !filepath.IsAbs(o.Dir) {
		t.Errorf("folder is %s, %v, want an absolute one", o.Dir, err)
	}
	if args := strings.Join(o.serverArgs("/d", 5), " "); !strings.HasPrefix(args, "-D /d -p 5 ") ||
		!strings.Contains(args, "max_connections=7") || strings.Contains(args, "max_connections=200") {
		t.Errorf("arguments are %s", args)
	}
}

func TestURLEscapesThePassword(t *testing.T) {
	t.Parallel()
	s := &Server{port: 5, password: "a/b@c:d%?#"}
	if got, want := s.URL("x"), "postgres://onceward:a%2Fb%40c%3Ad%25%3F%23@127.0.0.1:5/x?sslmode=disable"; got != want {
		t.Errorf("URL is %s, want %s", got, want)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, goos string
		root       bool
		state      string
		want       string
	}{
		{"dev", "linux", true, "/state", "/var/lib/onceward/dev"},
		{"dev", "linux", false, "/state", "/state/onceward/dev"},
		{"dev", "linux", false, "relative", "/home/me/.local/state/onceward/dev"},
		{"dev", "linux", false, "", "/home/me/.local/state/onceward/dev"},
		{"dev", "darwin", false, "/state", "/home/me/Library/Application Support/onceward/dev"},
		{"../x", "linux", false, "", ""},
		{"", "linux", false, "", ""},
		{"Dev", "linux", false, "", ""},
	} {
		got, err := place{
			goos: tc.goos, root: tc.root,
			getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": tc.state}[name] },
			home:   func() (string, error) { return "/home/me", nil },
		}.defaultDir(tc.name)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: got %q, %v", tc, got, err)
		}
	}
}

func TestOpenLogSetsALargeOneAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.log")
	write(t, path, "old", 0o600)
	if err := os.Truncate(path, maxLog+1); err != nil {
		t.Fatal(err)
	}
	file, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old, errOld := os.Stat(path + ".1")
	fresh, errFresh := os.Stat(path)
	if err := errors.Join(errOld, errFresh); err != nil {
		t.Fatal(err)
	}
	if old.Size() != maxLog+1 || fresh.Size() != 0 {
		t.Errorf("sizes are %d and %d, want %d and 0", old.Size(), fresh.Size(), maxLog+1)
	}
}

// A process that is being started has the lock's file for a moment; the folder is
// free all the same.
func TestTheLockIsGivenBackForAll(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "server")
	f := folderOf(t, dir)
	child, err := syscall.Dup(int(f.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(child) }()
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := folderOf(t, dir).close(); err != nil {
		t.Error(err)
	}
}
