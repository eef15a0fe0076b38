//go:build unix

package privatepg

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fakeInitdb = "#!/bin/sh\n"

func fakePostgres(version string) string {
	return "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
}

// installFake puts programs that only tell a version into a folder.
func installFake(t *testing.T, dir, version string) string {
	t.Helper()
	write(t, filepath.Join(dir, "initdb"), fakeInitdb, 0o755)
	write(t, filepath.Join(dir, "postgres"), fakePostgres(version), 0o755)
	return dir
}

// emptyFinder finds nothing; PATH is an empty folder.
func emptyFinder(t *testing.T, top string) *finder {
	t.Helper()
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(top, "path")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	return &finder{
		acct:     acct,
		log:      slog.New(slog.DiscardHandler),
		getenv:   func(string) string { return "" },
		pin:      pin{version: "17.0.0", major: 17, sums: map[string]string{"fake-os": "sha512-none"}},
		platform: "fake-os",
		caches:   []string{filepath.Join(top, "cache")},
	}
}

func TestFindOrder(t *testing.T) {
	top := openDir(t)
	f := emptyFinder(t, top)
	f.globs = []string{filepath.Join(top, "lib", "*", "bin"), filepath.Join(top, "more", "*")}
	find := func(major int) (string, error) {
		p, err := f.find(t.Context(), major)
		return strings.TrimPrefix(p.Dir, top), err
	}

	if _, err := find(0); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "apt-get install postgresql") ||
		!strings.Contains(err.Error(), "docker compose up") || strings.Count(err.Error(), "npm") != 1 {
		t.Errorf("with nothing installed: %v", err)
	}
	installFake(t, filepath.Join(top, "lib", "9.6", "bin"), "9.6.24")
	if _, err := find(0); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("with 9.6 only: %v", err)
	}
	write(t, filepath.Join(top, "lib", "18", "bin", "postgres"), fakePostgres("18.0"), 0o755) // no initdb
	installFake(t, filepath.Join(top, "lib", "14", "bin"), "14.9")
	installFake(t, filepath.Join(top, "lib", "16", "bin"), "16.2 (Debian 16.2-1)")
	installFake(t, filepath.Join(top, "more", "17"), "17beta1")
	for major, want := range map[int]string{0: "/lib/16/bin", 14: "/lib/14/bin", 17: "/more/17"} {
		if got, err := find(major); got != want || err != nil {
			t.Errorf("wanting version %d: got %s, %v, want %s", major, got, err, want)
		}
	}
	if _, err := find(15); err == nil || !strings.Contains(err.Error(), "Postgres 16.2 in") {
		t.Errorf("wanting version 15: %v", err)
	}

	// pg_config goes before the usual folders, PATH before pg_config; a link on
	// PATH leads to where the programs are.
	write(t, filepath.Join(top, "path", "pg_config"), "#!/bin/sh\necho "+filepath.Join(top, "lib", "14", "bin")+"\n", 0o755)
	if got, err := find(0); got != "/lib/14/bin" || err != nil {
		t.Errorf("with pg_config: got %s, %v", got, err)
	}
	if err := os.Symlink(filepath.Join(top, "more", "17", "initdb"), filepath.Join(top, "path", "initdb")); err != nil {
		t.Fatal(err)
	}
	if got, err := find(0); got != "/more/17" || err != nil {
		t.Errorf("with a link on PATH: got %s, %v", got, err)
	}

	// The variable goes before all, and nothing stands in for it.
	f.getenv = func(name string) string {
		return map[string]string{EnvBin: filepath.Join(top, "lib", "16", "bin")}[name]
	}
	if got, err := find(0); got != "/lib/16/bin" || err != nil {
		t.Errorf("with %s: got %s, %v", EnvBin, got, err)
	}
	if _, err := find(14); err == nil || !strings.Contains(err.Error(), "Postgres 14") {
		t.Errorf("with %s and data of version 14: %v", EnvBin, err)
	}
	f.getenv = func(string) string { return filepath.Join(top, "nowhere") }
	if _, err := find(0); err == nil || !strings.Contains(err.Error(), EnvBin) {
		t.Errorf("with a wrong %s: %v", EnvBin, err)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{
		"postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 17devel":                          17,
		"postgres (PostgreSQL) 9.6.24":                           9,
		"postgres (SomethingElse) 15.1":                          0,
		"":                                                       0,
	} {
		_, major, err := parseVersion(answer)
		if major != want || (err == nil) != (want != 0) {
			t.Errorf("%q: major version %d, %v, want %d", answer, major, err, want)
		}
	}
}

// entry is one file of a tarball.
type entry struct {
	name, text string
	mode       int64
	kind       byte
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.text)), Typeflag: e.kind}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size, e.text = e.text, 0, ""
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func integrity(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func fakePackage(t *testing.T) []byte {
	t.Helper()
	return pack(t,
		entry{name: "package/package.json", text: "{}", mode: 0o644},
		entry{name: "package/native/bin/initdb", text: fakeInitdb, mode: 0o755},
		entry{name: "package/native/bin/postgres", text: fakePostgres("17.0"), mode: 0o755},
		entry{name: "package/native/lib/libx.so.5.17", text: "x", mode: 0o644},
		entry{name: "package/native/pg-symlinks.json", mode: 0o644,
			text: `[{"source":"native/lib/libx.so.5.17","target":"native/lib/libx.so"}]`},
	)
}

// npmStub puts an npm on PATH that copies a tarball to where it is told to,
// and counts its calls.
func npmStub(t *testing.T, top string, tarball []byte) (calls func() int) {
	t.Helper()
	source, count := filepath.Join(top, "source.tgz"), filepath.Join(top, "calls")
	write(t, source, string(tarball), 0o644)
	write(t, filepath.Join(top, "path", "npm"), fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\n"+
		"test \"$1 $2 $3\" = 'pack @embedded-postgres/fake-os@17.0.0 --pack-destination' || exit 9\n"+
		"/bin/cp %s \"$4/embedded.tgz\"\n", count, source), 0o755)
	return func() int {
		text, err := os.ReadFile(count)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
}

func TestDownload(t *testing.T) {
	top := openDir(t)
	f := emptyFinder(t, top)
	good := fakePackage(t)
	calls := npmStub(t, top, good)
	f.pin.sums["fake-os"] = integrity(good)
	final := filepath.Join(top, "cache", "17.0.0-fake-os")

	for range 2 { // the second time from the cache
		p, err := f.find(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dir != filepath.Join(final, "bin") || p.Major != 17 {
			t.Errorf("found %+v", p)
		}
	}
	if n := calls(); n != 1 {
		t.Errorf("npm was called %d times, want 1", n)
	}
	if to, err := os.Readlink(filepath.Join(final, "lib", "libx.so")); to != "libx.so.5.17" || err != nil {
		t.Errorf("the library's link leads to %q, %v", to, err)
	}

	// A cached build that does not run is replaced whole.
	write(t, filepath.Join(final, "bin", "postgres"), "", 0o755)
	if _, err := f.find(t.Context(), 0); err != nil {
		t.Errorf("with a broken cache: %v", err)
	}
	if n := calls(); n != 2 {
		t.Errorf("npm was called %d times, want 2", n)
	}
	// Only what the cache holds can serve data of that version.
	if _, err := f.find(t.Context(), 17); err != nil {
		t.Errorf("wanting version 17: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(top, "cache"))
	if err != nil || len(entries) != 1 {
		t.Errorf("cache holds %v, %v, want the one build", entries, err)
	}
}

func TestDownloadRefused(t *testing.T) {
	for _, tc := range []struct {
		name     string
		npm      string // instead of one that works
		tail     string // added to the tarball
		platform string
		cache    string
		want     string
	}{
		{name: "another checksum", tail: "x", want: "checksum is sha512-"},
		{name: "npm fails", npm: "#!/bin/sh\necho E404 not found >&2\nexit 1\n", want: "E404 not found"},
		{name: "npm leaves nothing", npm: "#!/bin/sh\n", want: "left 0 tarballs"},
		{name: "no build for this system", platform: "other-os", want: "no build to download for other-os"},
		{name: "no place", cache: "source.tgz/cache", want: "no folder to keep a download"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := openDir(t)
			f := emptyFinder(t, top)
			f.pin.sums["fake-os"] = integrity(fakePackage(t))
			npmStub(t, top, append(fakePackage(t), tc.tail...))
			if tc.npm != "" {
				write(t, filepath.Join(top, "path", "npm"), tc.npm, 0o755)
			}
			f.platform = cmp.Or(tc.platform, f.platform)
			f.caches = []string{filepath.Join(top, cmp.Or(tc.cache, "cache"))}
			_, err := f.find(t.Context(), 0)
			if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want ErrNotFound with %q", err, tc.want)
			}
			if entries, err := os.ReadDir(filepath.Join(top, "cache")); len(entries) > 0 {
				t.Errorf("cache holds %v, %v, want nothing", entries, err)
			}
		})
	}
}

func TestDownloadCancelled(t *testing.T) {
	top := openDir(t)
	f := emptyFinder(t, top)
	f.pin.sums["fake-os"] = integrity(fakePackage(t))
	npmStub(t, top, fakePackage(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.find(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
}

func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	links := func(source, target string) entry {
		return entry{name: "package/native/pg-symlinks.json",
			text: fmt.Sprintf(`[{"source":%q,"target":%q}]`, source, target)}
	}
	for name, entries := range map[string][]entry{
		"parent":            {{name: "package/native/../../../evil", text: "x"}},
		"absolute":          {{name: "/package/native/evil", text: "x"}},
		"symbolic link":     {{name: "package/native/lib", text: "/etc", kind: tar.TypeSymlink}},
		"hard link":         {{name: "package/native/lib", kind: tar.TypeLink}},
		"device":            {{name: "package/native/lib", kind: tar.TypeChar}},
		"same file twice":   {{name: "package/native/a", text: "x"}, {name: "package/native/a", text: "y"}},
		"link to outside":   {links("native/../../etc/passwd", "native/lib")},
		"link outside":      {links("native/a", "native/../../evil"), {name: "package/native/a"}},
		"link to nothing":   {links("native/a", "native/b")},
		"links in bad form": {{name: "package/native/pg-symlinks.json", text: "nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			tarball := filepath.Join(top, "in", "x.tgz")
			write(t, tarball, string(pack(t, entries...)), 0o644)
			if err := unpack(tarball, filepath.Join(top, "in", "tree")); err == nil {
				t.Errorf("accepted; the folder holds\n%s", names(t, top))
			}
			if evil, err := filepath.Glob(filepath.Join(top, "*")); len(evil) != 1 {
				t.Errorf("outside are %v, %v", evil, err)
			}
		})
	}
}

// TestPin holds that the download is named in full for each system.
func TestPin(t *testing.T) {
	t.Parallel()
	p := pinned()
	if !strings.HasPrefix(p.version, fmt.Sprint(p.major)+".") {
		t.Errorf("version %s is not of Postgres %d", p.version, p.major)
	}
	for _, platform := range []string{
		npmPlatform("linux", "amd64"), npmPlatform("linux", "arm64"),
		npmPlatform("darwin", "amd64"), npmPlatform("darwin", "arm64"),
	} {
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.sums[platform], "sha512-"))
		if err != nil || len(sum) != sha512.Size {
			t.Errorf("platform %s: sum has %d bytes, %v", platform, len(sum), err)
		}
	}
}
