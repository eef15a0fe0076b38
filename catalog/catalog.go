package catalog

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
)

//go:embed */*.yaml
var files embed.FS

// Entry is one provider of the catalogue.
type Entry struct {
	Provider *definition.Provider
	Actions  []*definition.Action // by type
}

// Names returns the names of the entries, sorted.
func Names() ([]string, error) {
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(folders))
	for _, folder := range folders {
		names = append(names, folder.Name())
	}
	return names, nil
}

// Get returns an entry and the set that it is in. It fails when there is no
// such entry.
func Get(name string) (Entry, *definition.Set, error) {
	names, err := Names()
	if err != nil {
		return Entry{}, nil, err
	}
	if !slices.Contains(names, name) {
		return Entry{}, nil, fmt.Errorf("the catalogue has no %q; it has %s", name, strings.Join(names, ", "))
	}
	set, err := definition.LoadFS(files, name)
	if err != nil {
		return Entry{}, nil, err
	}
	if len(set.Providers) != 1 {
		return Entry{}, nil, fmt.Errorf("the catalogue's %s has %d providers, want one", name, len(set.Providers))
	}
	entry := Entry{Actions: slices.SortedFunc(maps.Values(set.Actions), func(a, b *definition.Action) int { return cmp.Compare(a.Type, b.Type) })}
	for _, p := range set.Providers {
		entry.Provider = p
	}
	return entry, set, nil
}

// Load reads entries together.
func Load(names ...string) (*definition.Set, error) { return definition.LoadFS(files, names...) }

// Files returns the files of an entry by name, without its folder. It fails
// when there is no such entry.
func Files(name string) (map[string][]byte, error) {
	if _, _, err := Get(name); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(files, name)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if out[e.Name()], err = files.ReadFile(path.Join(name, e.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}
