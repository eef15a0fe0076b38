package identity

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"
)

// FileOptions configure a File.
type FileOptions struct {
	Path     string
	Log      *slog.Logger
	Interval time.Duration // between two looks at it
}

// File is the issuers and rules that are in use, from a file. It is safe for
// concurrent use.
type File struct {
	FileOptions
	rules atomic.Pointer[rules]
	begun [sha256.Size]byte
}

// rules are a file in use. They are not changed. The zero value lets API keys in
// and nothing else.
type rules struct {
	noKeys       bool
	issuers      map[string]*issuer // by the claim iss
	certificates []certificateRule
	files        []string // that they are made of
}

// Open reads a file. What is wrong in it comes as a definition.FaultsError.
// Issuers are asked for their keys beside it: one that is away keeps nobody
// else out.
func Open(o FileOptions) (*File, error) {
	f := &File{FileOptions: o}
	// What is looked at before it is read is never newer than what was read: a
	// change in between is found by the next look.
	f.begun = looked([]string{o.Path})
	if err := f.take(); err != nil {
		return nil, err
	}
	f.begun = sameOr(f.begun, f.files(), o.Path)
	return f, nil
}

// sameOr returns what all files hold, if the first one still holds what it did.
func sameOr(begun [sha256.Size]byte, files []string, path string) [sha256.Size]byte {
	if looked([]string{path}) != begun {
		return begun // a change, which the first look will find
	}
	return looked(files)
}

// current are the rules in use. Without a file, API keys are good.
func (f *File) current() *rules {
	if f == nil {
		return &rules{}
	}
	return f.rules.Load()
}

func (f *File) files() []string { return f.rules.Load().files }

// Watch takes changes over until ctx ends.
func (f *File) Watch(ctx context.Context) {
	w := watcher{what: "identity file", files: f.files, take: f.take, log: f.Log, interval: f.Interval}
	w.run(ctx, f.begun)
}

// take reads the file. An issuer that did not change is kept, with the keys that
// are known of it.
func (f *File) take() error {
	doc, err := load(f.Path)
	if err != nil {
		return err
	}
	next := &rules{
		noKeys: doc.APIKeys != nil && !*doc.APIKeys, issuers: map[string]*issuer{}, certificates: doc.Certificates, files: []string{f.Path},
	}
	before := f.rules.Load()
	for _, c := range doc.Issuers {
		if c.CAFile != "" {
			next.files = append(next.files, c.CAFile)
		}
		i := newIssuer(c, f.Log)
		if before != nil {
			if known := before.issuers[c.URL]; known != nil && known.sameAs(c) {
				i = known
			}
		}
		i.keys.warm()
		next.issuers[c.URL] = i
	}
	f.rules.Store(next)
	return nil
}

// sameAs says whether a configuration is the one of this issuer.
func (i *issuer) sameAs(c issuerConfig) bool {
	own := i.issuerConfig
	own.roots, c.roots = nil, nil // made of ca
	return reflect.DeepEqual(own, c)
}
