package command

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

func (*versionCmd) Help() string { return "Example:\n  onceward version" }

// Run prints the version of the module and of Go.
func (*versionCmd) Run(s streams) error {
	version, goVersion := "(devel)", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				version += " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.out, "onceward %s (%s)\n", version, goVersion)
	return err
}
