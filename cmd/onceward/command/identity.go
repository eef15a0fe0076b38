package command

import (
	"fmt"

	"github.com/onceward/onceward/internal/identity"
)

type identityCmd struct {
	Check identityCheckCmd `cmd:"" help:"Check a file of issuers and rules for certificates."`
}

func (*identityCmd) Help() string { return (*identityCheckCmd)(nil).Help() }

type identityCheckCmd struct {
	File string `arg:"" type:"path" help:"File, as serve takes it with --identity."`
}

func (*identityCheckCmd) Help() string {
	return `Reads the file as the service does, and asks nobody. Every fault comes with its file,
line and field, and the exit code is not zero.

Example:
  onceward identity check identity.yaml`
}

// Run checks the file.
func (c *identityCheckCmd) Run(s streams) error {
	if err := identity.Check(c.File); err != nil {
		return faulty(s, err)
	}
	fmt.Fprintf(s.out, "%s: nothing is wrong\n", c.File)
	return nil
}
