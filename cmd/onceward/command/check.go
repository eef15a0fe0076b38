package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/catalog"
	"github.com/onceward/onceward/internal/providers"
)

type checkCmd struct {
	Paths     []string `arg:"" help:"Files and folders with providers and actions, or names of the catalogue."`
	NoSecrets bool     `name:"no-secrets" help:"Do not look whether the secrets are there."`
}

func (*checkCmd) Help() string {
	return `Reads the files as the service does, and asks nobody. Every fault comes with its file,
line and field, and the exit code is not zero.

Example:
  onceward check ./onceward
  onceward check --no-secrets stripe`
}

// Run checks definitions.
func (c *checkCmd) Run(s streams) error {
	set, err := loadDefinitions(c.Paths)
	if err != nil {
		return faulty(s, err)
	}
	if err := checkDefinitions(set); err != nil {
		return faulty(s, err)
	}
	if !c.NoSecrets {
		if faults := providers.MissingSecrets(set); len(faults) > 0 {
			return faulty(s, &definition.FaultsError{Faults: faults})
		}
	}
	fmt.Fprintf(s.out, "%d files, %d providers, %d action types: nothing is wrong\n", len(set.Files), len(set.Providers), len(set.Actions))
	return nil
}

// faulty prints faults, one a line, and returns an error that counts them.
func faulty(s streams, err error) error {
	var faults *definition.FaultsError
	if !errors.As(err, &faults) {
		return err
	}
	for _, f := range faults.Faults {
		fmt.Fprintln(s.err, f)
	}
	return fmt.Errorf("%d things are wrong", len(faults.Faults))
}

// loadDefinitions reads files, folders and entries of the catalogue; what is
// both a file and an entry is the file.
func loadDefinitions(paths []string) (*definition.Set, error) {
	names, err := catalog.Names()
	if err != nil {
		return nil, err
	}
	fromCatalog := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist) && slices.Contains(names, path)
	}
	if !slices.ContainsFunc(paths, fromCatalog) {
		return definition.Load(paths...)
	}
	for _, path := range paths {
		if !fromCatalog(path) {
			return nil, fmt.Errorf("%w: files and entries of the catalogue cannot be mixed: copy the entries (onceward catalog copy %s .)", errUsage, paths[0])
		}
	}
	return catalog.Load(paths...)
}

// checkDefinitions compiles what was read, and tries its examples.
func checkDefinitions(set *definition.Set) error {
	faults, err := declared.Check(set)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return &definition.FaultsError{Faults: faults}
	}
	return nil
}
