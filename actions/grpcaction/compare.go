package grpcaction

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/onceward/onceward/actions"
)

// ErrChanged: an action type is described otherwise than before, under the same
// version. Operations that were opened under the former description would go on
// under rules that nobody recorded.
var ErrChanged = errors.New("changed without a new version")

// Compare reports, with ErrChanged, every action type that is in both lists
// with the same version and the same contract version, and differs. It names the
// fields. Types that are in one list only, or have another version, are no
// concern of it.
func Compare(before, after []actions.Adapter) error {
	former := make(map[string]actions.Adapter, len(before))
	for _, a := range before {
		former[a.Spec().Type] = a
	}
	var errs []error
	for _, a := range after {
		now := a.Spec()
		b := former[now.Type]
		if b == nil {
			continue
		}
		was := b.Spec()
		if was.Version != now.Version || was.Contract.Version != now.Contract.Version {
			continue
		}
		changed := differences("", reflect.ValueOf(described(was)), reflect.ValueOf(described(now)))
		if canLookUp(a) != canLookUp(b) {
			changed = append(changed, "can look up")
		}
		if len(changed) > 0 {
			errs = append(errs, fmt.Errorf("action type %q %w (%s, contract %s): %s",
				now.Type, ErrChanged, now.Version, now.Contract.Version, strings.Join(changed, ", ")))
		}
	}
	return errors.Join(errs...)
}

// described is a spec without what the installation adds to it: none of that is
// recorded with an operation, or a part of what is sent under its version.
func described(spec actions.Spec) actions.Spec {
	spec = spec.WithDefaults()
	spec.Contract.Protection, spec.TokenAudience = actions.Protection{}, ""
	return spec
}

func canLookUp(a actions.Adapter) bool {
	_, ok := a.(actions.Looker)
	return ok
}

// differences returns the paths of the fields in which two structs of one type
// differ.
func differences(path string, a, b reflect.Value) []string {
	var paths []string
	for i := range a.NumField() {
		name := path + a.Type().Field(i).Name
		switch {
		case a.Field(i).Kind() == reflect.Struct:
			paths = append(paths, differences(name+".", a.Field(i), b.Field(i))...)
		case a.Field(i).Kind() == reflect.Slice && a.Field(i).Len() == 0 && b.Field(i).Len() == 0:
			// nil and empty mean the same
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			paths = append(paths, name)
		}
	}
	return paths
}
