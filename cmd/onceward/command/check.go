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
	fmt.Fprintf(s.out, "%s, %s, %s: nothing is wrong\n",
		counted(len(set.Files), "file"), counted(len(set.Providers), "provider"), counted(len(set.Actions), "action type"))
	return nil
}

// notOpened is why providers could not be opened. It keeps its whole text: the error
// of an AdapterService carries a gRPC status, which is not the answer to a command.
func notOpened(s streams, err error) error {
	return errors.New(faulty(s, err).Error())
}

// faulty prints faults, one a line, and returns an error that counts them. Any
// other error is returned as it is.
func faulty(s streams, err error) error {
	var faults *definition.FaultsError
	if !errors.As(err, &faults) {
		return err
	}
	shown := map[definition.Fault]bool{}
	for _, f := range faults.Faults {
		if !shown[f] { // a receipt's expression is compiled for answers and for look-ups
			shown[f] = true
			fmt.Fprintln(s.err, f)
		}
	}
	if len(shown) == 1 {
		return errors.New("1 thing is wrong")
	}
	return fmt.Errorf("%d things are wrong", len(shown))
}

// counted is "1 file", "2 files".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// loadDefinitions reads files, folders and entries of the catalogue; what is
// both a file and an entry is the file.
func loadDefinitions(paths []string) (*definition.Set, error) {
	names, err := catalog.Names()
	if err != nil {
		return nil, err
	}
	missing := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	fromCatalog := func(path string) bool { return missing(path) && slices.Contains(names, path) }
	for _, path := range paths {
		if missing(path) && !fromCatalog(path) {
			return nil, fmt.Errorf("%s is no file, no folder and no name of the catalogue (see onceward catalog)", path)
		}
	}
	if !slices.ContainsFunc(paths, fromCatalog) {
		return definition.Load(paths...)
	}
	for _, path := range paths {
		if !fromCatalog(path) {
			return nil, fmt.Errorf("%w: files and entries of the catalogue cannot be mixed: copy the entries (onceward catalog copy %s .)", errUsage, paths[slices.IndexFunc(paths, fromCatalog)])
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
