package command

import "fmt"

type versionCmd struct{}

func (*versionCmd) Help() string { return "Example:\n  onceward version" }

// Run prints the version of the module and of Go.
func (*versionCmd) Run(s streams) error {
	version, goVersion := buildVersion()
	_, err := fmt.Fprintf(s.out, "onceward %s (%s)\n", version, goVersion)
	return err
}
