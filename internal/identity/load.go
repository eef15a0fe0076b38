package identity

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/strictyaml"
)

const (
	maxFileBytes = 256 << 10
	// maxTokens keeps the YAML library, whose time grows faster than its input,
	// below the blink of an eye.
	maxTokens = 30_000
)

// Check reads a file of issuers and rules as the service does, and asks nobody.
// Everything that is wrong in it comes as a definition.FaultsError.
func Check(path string) error {
	_, err := load(path)
	return err
}

// load reads a file, with the certificates that it names.
func load(path string) (document, error) {
	data, err := readBounded(path)
	if err != nil {
		return document{}, fmt.Errorf("identity: %w", err)
	}
	l := loader{path: path}
	doc, ok := l.read(data)
	if ok {
		doc.check(l.fault)
		l.readRoots(&doc)
	}
	if len(l.faults) > 0 {
		return document{}, &definition.FaultsError{Faults: strictyaml.Sorted(l.faults)}
	}
	return doc, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: want a file of at most %d KiB", path, maxFileBytes>>10)
	}
	return os.ReadFile(path)
}

// loader reads one file and collects what is wrong in it.
type loader struct {
	path   string
	parsed *ast.File
	faults []definition.Fault
}

// read parses a file that must mean what everybody sees in it.
func (l *loader) read(data []byte) (doc document, ok bool) {
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		l.at(nil, "", "is too long")
		return doc, false
	}
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType:
			l.at(t, "", "anchors, aliases, tags and merges are not allowed")
			return doc, false
		default:
		}
	}
	var err error
	if l.parsed, err = parser.Parse(tokens, 0); err != nil {
		l.yaml(err)
		return doc, false
	}
	if len(l.parsed.Docs) != 1 || l.parsed.Docs[0].Body == nil {
		l.at(nil, "", "want one document with issuers, certificates or both")
		return doc, false
	}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&doc); err != nil {
		l.yaml(err)
		return doc, false
	}
	return doc, true
}

// yaml adds what the YAML library has found.
func (l *loader) yaml(err error) {
	var placed yaml.Error
	if errors.As(err, &placed) {
		l.at(placed.GetToken(), "", placed.GetMessage())
		return
	}
	l.at(nil, "", err.Error())
}

func (l *loader) at(t *token.Token, field, problem string) {
	place := definition.Place{File: l.path}
	if t != nil && t.Position != nil {
		place.Line, place.Column = t.Position.Line, t.Position.Column
	}
	l.faults = append(l.faults, definition.Fault{Place: place, Field: field, Problem: problem})
}

// lastPart is the last name or index of a field's path.
var lastPart = regexp.MustCompile(`(\.[a-z_]+|\[[0-9]+\]|^[a-z_]+)$`)

// fault adds a fault at a field, or, where it is not there, at what it would be
// in.
func (l *loader) fault(field, format string, args ...any) {
	var at *token.Token
	for rest := field; rest != "" && at == nil; rest = lastPart.ReplaceAllString(rest, "") {
		path, err := yaml.PathString("$." + rest)
		if err != nil {
			break
		}
		if node, err := path.FilterFile(l.parsed); err == nil && node != nil {
			at = begin(node)
		}
	}
	l.at(at, field, fmt.Sprintf(format, args...))
}

// begin is where a node begins, which for an object is its first name.
func begin(node ast.Node) *token.Token {
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	default:
	}
	return node.GetToken()
}

// readRoots reads the certificates that issuers' own are checked with.
func (l *loader) readRoots(doc *document) {
	for i := range doc.Issuers {
		c, field := &doc.Issuers[i], fmt.Sprintf("issuers[%d].ca_file", i)
		if c.CAFile == "" {
			continue
		}
		c.CAFile = beside(l.path, c.CAFile)
		var err error
		if c.ca, err = readBounded(c.CAFile); err != nil {
			l.fault(field, "%v", err)
			continue
		}
		var ok bool
		if c.roots, ok = rootsOf(c.ca); !ok {
			l.fault(field, "%s holds no certificate in PEM", c.CAFile)
		}
	}
}

// beside is a path that a file names: from where the file is.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
