package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/catalog"
)

type catalogCmd struct {
	List catalogListCmd `cmd:"" default:"withargs" help:"List the providers of the catalogue and their actions (the default)."`
	Show catalogShowCmd `cmd:"" help:"Show one provider: what it promises, what was read where, what is unverified."`
	Copy catalogCopyCmd `cmd:"" help:"Copy a provider's files into a folder, to make them yours."`
}

func (*catalogCmd) Help() string {
	return `The catalogue holds contracts of common providers. They are files to start from: copy
them, fill in what is yours (config, secrets), prove them, and serve them.

Example:
  onceward catalog
  onceward catalog show stripe
  onceward catalog copy stripe ./onceward
  onceward verify ./onceward
  onceward serve --config=./onceward …`
}

type catalogListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (*catalogListCmd) Help() string { return "Example:\n  onceward catalog list --json" }

// catalogEntry is how an entry is printed.
type catalogEntry struct {
	Name       string            `json:"name"`
	Title      string            `json:"title"`
	Version    string            `json:"version"`
	Actions    []catalogAction   `json:"actions"`
	Documents  map[string]string `json:"documents"`
	Facts      int               `json:"facts"`
	Unverified []string          `json:"unverified"` // file: field
}

type catalogAction struct {
	Type        string `json:"type"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Risk        string `json:"risk"`
	Keys        string `json:"keys"`
	Lookups     string `json:"lookups"`
}

// Run prints one line for each action.
func (c *catalogListCmd) Run(s streams) error {
	names, err := catalog.Names()
	if err != nil {
		return err
	}
	entries := make([]catalogEntry, 0, len(names))
	for _, name := range names {
		e, err := entryOf(name)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if c.JSON {
		return printJSON(s.out, entries)
	}
	rows := [][]string{{"PROVIDER", "ACTION", "RISK", "KEY", "LOOK-UP", "DESCRIPTION"}}
	for _, e := range entries {
		for _, a := range e.Actions {
			rows = append(rows, []string{e.Name, a.Type, a.Risk, a.Keys, a.Lookups, a.Description})
		}
	}
	return printTable(s.out, rows)
}

func entryOf(name string) (catalogEntry, error) {
	entry, _, err := catalog.Get(name)
	if err != nil {
		return catalogEntry{}, err
	}
	p := entry.Provider
	out := catalogEntry{Name: p.Name, Title: p.Title, Version: p.Version, Documents: map[string]string{}, Unverified: []string{}}
	for id, d := range p.Documents {
		out.Documents[id] = strings.TrimSpace(d.Title + " " + d.URL)
	}
	count := func(file string) func(string, definition.Proof) {
		return func(field string, proof definition.Proof) {
			if proof == (definition.Proof{}) {
				return
			}
			out.Facts++
			if proof.Unverified {
				out.Unverified = append(out.Unverified, filepath.Base(file)+": "+field)
			}
		}
	}
	definition.EachProof(p, count(p.Place.File))
	for _, a := range entry.Actions {
		definition.EachProof(a, count(a.Place.File))
		out.Actions = append(out.Actions, catalogAction{
			Type: a.Type, Version: a.Version, Description: a.Description, Risk: a.Risk,
			Keys: keysInShort(p, a), Lookups: lookupsInShort(a),
		})
	}
	return out, nil
}

// keysInShort says how the provider treats our key.
func keysInShort(p *definition.Provider, a *definition.Action) string {
	keys := p.Keys
	if a.Keys != nil {
		keys = a.Keys
	}
	switch {
	case keys == nil || keys.Place == "none":
		return "none"
	case keys.Window == 0:
		return keys.Place
	}
	return keys.Place + " " + inShort(keys.Window)
}

// inShort leaves the zero minutes and seconds out of a length of time: "6h".
func inShort(d definition.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// lookupsInShort says whether an effect can be found, and its absence proved.
func lookupsInShort(a *definition.Action) string {
	if len(a.Lookups) == 0 {
		return "none"
	}
	for _, l := range a.Lookups {
		if l.Absence != nil {
			return "finds, proves absence"
		}
	}
	for _, l := range a.Lookups {
		if l.Strength == "strong" || l.Strength == "indexed" {
			return "finds"
		}
	}
	return "hints"
}

type catalogShowCmd struct {
	Name string `arg:"" help:"Name of the provider."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (*catalogShowCmd) Help() string { return "Example:\n  onceward catalog show stripe" }

// Run prints an entry and its files.
func (c *catalogShowCmd) Run(s streams) error {
	e, err := entryOf(c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, e)
	}
	files, err := catalog.Files(c.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "# %s, version %s: %d facts, %d of them not read in a document\n", e.Title, e.Version, e.Facts, len(e.Unverified))
	for _, u := range e.Unverified {
		fmt.Fprintf(s.out, "# unverified: %s\n", u)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(s.out, "\n# --- %s/%s\n%s", c.Name, name, files[name])
	}
	return nil
}

type catalogCopyCmd struct {
	Name  string `arg:"" help:"Name of the provider."`
	Dir   string `arg:"" type:"path" help:"Folder; the files go into a folder of the provider's name in it."`
	Force bool   `help:"Overwrite files that are there."`
}

func (*catalogCopyCmd) Help() string { return "Example:\n  onceward catalog copy stripe ./onceward" }

// Run writes the files of an entry. Where one is there already nothing is
// written, and what was new is taken away again when another cannot be written.
func (c *catalogCopyCmd) Run(s streams) error {
	files, err := catalog.Files(c.Name)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.Dir, c.Name)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		path := filepath.Join(dir, name)
		_, err := os.Lstat(path)
		switch {
		case err == nil && !c.Force:
			return fmt.Errorf("%s is there already: nothing was written (--force overwrites)", path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("nothing was written: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var made []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		isNew, err := writeDefinition(path, files[name])
		if isNew {
			made = append(made, path)
		}
		if err != nil {
			for _, path := range made {
				err = errors.Join(err, os.Remove(path))
			}
			return err
		}
	}
	for _, name := range names {
		fmt.Fprintln(s.out, filepath.Join(dir, name))
	}
	return c.next(s)
}

// writeDefinition writes a file and says whether it was not there before.
func writeDefinition(path string, text []byte) (isNew bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if isNew = err == nil; errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0) // --force
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(text)
	return isNew, errors.Join(err, f.Close())
}

// next says what is left to do.
func (c *catalogCopyCmd) next(s streams) error {
	entry, _, err := catalog.Get(c.Name)
	if err != nil {
		return err
	}
	p := entry.Provider
	fmt.Fprintln(s.out, "\nNow:")
	for _, name := range slices.Sorted(maps.Keys(p.Config)) {
		fmt.Fprintf(s.out, "  set config.%s in provider.yaml: %s\n", name, p.Config[name].Description)
	}
	secrets := p.Secrets()
	for _, field := range slices.Sorted(maps.Keys(secrets)) {
		fmt.Fprintf(s.out, "  provide %s (%s)\n", secretName(secrets[field]), field)
	}
	// The folder of the provider alone: the one around it may hold other files.
	fmt.Fprintf(s.out, "  onceward check %[1]s\n  onceward verify %[1]s\n  onceward dev --config=%[1]s --simulate\n  onceward serve --config=%[1]s …\n", filepath.Join(c.Dir, c.Name))
	return nil
}

func secretName(s definition.Secret) string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}
