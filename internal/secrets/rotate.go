package secrets

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Kind is what a key does.
type Kind string

// The kinds of keys that are rotated.
const (
	Sealing Kind = "sealing" // of stored arguments
	Signing Kind = "signing" // of operation tokens and receipts
)

// KeyState is where a key is in its life.
type KeyState string

// The states, in order.
const (
	Next    KeyState = "next"    // known, and not used yet
	Primary KeyState = "primary" // seals, signs
	Old     KeyState = "old"     // opens and verifies only
)

// KeyInfo is what may be shown of a key.
type KeyInfo struct {
	ID        string
	Kind      Kind
	State     KeyState
	CreatedAt time.Time // zero: not on record
}

var (
	// ErrNoSuchKey: the folder has no key of that name.
	ErrNoSuchKey = errors.New("secrets: no such key: see onceward secrets list")
	// ErrInUse: the primary cannot be removed.
	ErrInUse = errors.New("secrets: it is the primary: rotate and promote another one first")
	// ErrNextWaits: a next key waits to be promoted.
	ErrNextWaits = errors.New("secrets: the next key is there already: promote it, or retire it")
	// ErrNoNext: there is nothing to promote.
	ErrNoNext = errors.New("secrets: there is no next key: make one with onceward secrets rotate")
)

// List names the keys in dir, without the secret of provider keys, which is not
// rotated.
func List(dir string) ([]KeyInfo, error) {
	k, err := readKeys(dir)
	if err != nil {
		return nil, err
	}
	return append(k.sealing.list(), k.signing.list()...), nil
}

// Add makes the next key of a kind: every process can open and verify with it
// once it has read the folder, and none uses it yet. The first of its kind is
// the primary at once. It fails with ErrNextWaits.
func Add(dir string, kind Kind) (KeyInfo, error) {
	return change(dir, kind, func(list []KeyInfo) (edit, error) {
		if len(list) > 0 && list[len(list)-1].State == Next {
			return edit{}, fmt.Errorf("%s: %w", list[len(list)-1].ID, ErrNextWaits)
		}
		return edit{sealing: sealing.with, signing: signing.with}, nil
	}, "")
}

// Promote makes the next key of a kind the primary, and the primary an old one.
// Every process must have read the next one before. It fails with ErrNoNext.
func Promote(dir string, kind Kind) (KeyInfo, error) {
	return change(dir, kind, func(list []KeyInfo) (edit, error) {
		if len(list) == 0 || list[len(list)-1].State != Next {
			return edit{}, fmt.Errorf("%s: %w", kind, ErrNoNext)
		}
		id := list[len(list)-1].ID
		return edit{
			sealing: func(s sealing) (sealing, error) { return s.promoted(id) },
			signing: func(s signing) (signing, error) { return s.promoted(id) },
		}, nil
	}, "")
}

// Retire removes a key. What it sealed can never be opened again, and what it
// signed is verified by nobody who asks us for keys. It fails with ErrNoSuchKey
// and ErrInUse.
func Retire(dir, id string) (KeyInfo, error) {
	kind := Signing
	if strings.HasPrefix(id, sealingPrefix) {
		kind = Sealing
	}
	return change(dir, kind, func(list []KeyInfo) (edit, error) {
		for _, k := range list {
			switch {
			case k.ID != id:
			case k.State == Primary:
				return edit{}, fmt.Errorf("%s: %w", id, ErrInUse)
			default:
				return edit{
					sealing: func(s sealing) (sealing, error) { return s.without(id) },
					signing: func(s signing) (signing, error) { return s.without(id) },
				}, nil
			}
		}
		return edit{}, fmt.Errorf("%q: %w", id, ErrNoSuchKey)
	}, id)
}

// edit is a change of either kind.
type edit struct {
	sealing func(sealing) (sealing, error)
	signing func(signing) (signing, error)
}

// change edits the keys of one kind under the folder's lock, and returns the key
// that it is about: the one named gone, else the newest.
func change(dir string, kind Kind, plan func([]KeyInfo) (edit, error), gone string) (KeyInfo, error) {
	unlock, err := lock(dir)
	if err != nil {
		return KeyInfo{}, err
	}
	defer unlock()
	// Half a set, or one that cannot be used, is not made worse.
	if _, err := readProviderKey(dir); err != nil {
		return KeyInfo{}, err
	}
	now, err := readKeys(dir)
	if err != nil {
		return KeyInfo{}, err
	}
	before := now.signing.list()
	if kind == Sealing {
		before = now.sealing.list()
	}
	e, err := plan(before)
	if err != nil {
		return KeyInfo{}, err
	}
	after, err := e.write(dir, kind, now)
	if err != nil {
		return KeyInfo{}, err
	}
	for _, k := range before {
		if k.ID == gone {
			return k, nil
		}
	}
	return after[len(after)-1], nil
}

func (e edit) write(dir string, kind Kind, now *keys) ([]KeyInfo, error) {
	if kind == Sealing {
		changed, err := e.sealing(now.sealing)
		if err != nil {
			return nil, err
		}
		return changed.list(), replace(filepath.Join(dir, sealingFile), changed.raw)
	}
	changed, err := e.signing(now.signing)
	if err != nil {
		return nil, err
	}
	return changed.list(), replace(filepath.Join(dir, signingFile), changed.raw)
}

func primaryIf(is bool) KeyState {
	if is {
		return Primary
	}
	return ""
}

// aroundPrimary tells the states of the others from the order that keys were
// made in: those after the primary wait, those before it are done.
func aroundPrimary(list []KeyInfo) []KeyInfo {
	other := Old
	for i := range list {
		if list[i].State == Primary {
			other = Next
			continue
		}
		list[i].State = other
	}
	return list
}
