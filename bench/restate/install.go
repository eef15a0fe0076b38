package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// serverVersion is the version of the server that is measured.
const serverVersion = "1.7.12"

// serverPackage names the npm package that holds the server's program for this
// machine.
func serverPackage() (string, error) {
	switch platform := runtime.GOOS + "/" + runtime.GOARCH; platform {
	case "linux/amd64":
		return "restate-server-linux-x64", nil
	case "linux/arm64":
		return "restate-server-linux-arm64", nil
	case "darwin/amd64":
		return "restate-server-darwin-x64", nil
	case "darwin/arm64":
		return "restate-server-darwin-arm64", nil
	default:
		return "", fmt.Errorf("there is no package of the server for %s", platform)
	}
}

// cacheFolder is where the program is kept: the folder that RESTATE_HOME names,
// one in the user's cache, or, for a user without, one in dir. It takes 200 MB,
// too much to be fetched for each measurement.
func cacheFolder(dir string) string {
	if home := os.Getenv("RESTATE_HOME"); home != "" {
		return home
	}
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "onceward", "restate")
	}
	return filepath.Join(dir, "cache")
}

// install returns the path of the server's program in the cache folder, and
// fetches it with npm when it is not there. npm works in a folder beside it
// that is renamed when all went well: what an interrupted run leaves is not
// taken for a server.
func install(ctx context.Context, cache string) (program string, err error) {
	pkg, err := serverPackage()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "restate-"+serverVersion)
	program = filepath.Join(home, "node_modules", "@restatedev", pkg, "bin", "restate-server")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "unfinished-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh) // nothing is left of it after the rename

	spec := "@restatedev/" + pkg + "@" + serverVersion
	fmt.Fprintf(os.Stderr, "restate: fetching %s with npm into %s, once\n", spec, cache)
	npm := command(ctx, "npm", "install", "--prefix", fresh, "--ignore-scripts", "--no-audit", "--no-fund", spec)
	npm.Stdout = os.Stderr
	if err := start(npm).wait(); err != nil {
		return "", fmt.Errorf("npm install %s: %w", spec, err)
	}
	if err := os.Rename(fresh, home); err != nil && !errors.Is(err, os.ErrExist) { // another run may have been first
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%s does not hold the program: %w", spec, err)
	}
	return program, nil
}
