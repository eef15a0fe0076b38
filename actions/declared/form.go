package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listStyle is how lists are spelt in forms and queries.
type listStyle string

const (
	listBrackets listStyle = "brackets" // a[]=1&a[]=2
	listIndices  listStyle = "indices"  // a[0]=1&a[1]=2
	listRepeat   listStyle = "repeat"   // a=1&a=2
)

// pair is one parameter.
type pair struct {
	name, value string
	list        bool // one of the items of a list, which may share a name
}

// pairsOf flattens an object into parameters, sorted by name: a member of a
// member is a[b]. Items of one list keep their order.
func pairsOf(object map[string]any, lists listStyle) ([]pair, error) {
	var pairs []pair
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var err error
		if pairs, err = appendPairs(pairs, name, object[name], lists); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(pairs); i++ {
		// Which of the two a provider takes is not ours to guess.
		if pairs[i].name == pairs[i-1].name && !(pairs[i].list && pairs[i-1].list) {
			return nil, fmt.Errorf("the parameter %s is there twice", pairs[i].name)
		}
	}
	return pairs, nil
}

func appendPairs(pairs []pair, name string, value any, lists listStyle) ([]pair, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range slices.Sorted(maps.Keys(v)) {
			// With brackets in it a member would pass for another one's member.
			if strings.ContainsAny(inner, "[]") {
				return nil, fmt.Errorf("%s: a member's name has a bracket, which has no form in a parameter", name)
			}
			if pairs, err = appendPairs(pairs, name+"["+inner+"]", v[inner], lists); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			at := name
			switch lists {
			case listIndices:
				at += "[" + strconv.Itoa(i) + "]"
			case listRepeat:
			default:
				at += "[]"
			}
			if !isScalar(item) && lists != listIndices {
				return nil, fmt.Errorf("%s: a list of lists or objects needs lists: indices", name)
			}
			before := len(pairs)
			if pairs, err = appendPairs(pairs, at, item, lists); err != nil {
				return nil, err
			}
			for i := range pairs[before:] {
				pairs[before+i].list = true
			}
		}
	default:
		text, err := scalarText(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pairs = append(pairs, pair{name: name, value: text})
	}
	return pairs, nil
}

// encodeForm writes parameters as application/x-www-form-urlencoded.
func encodeForm(pairs []pair) string {
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		parts[i] = url.QueryEscape(p.name) + "=" + url.QueryEscape(p.value)
	}
	return strings.Join(parts, "&")
}

// encodeQuery writes parameters for a URL, where a space as %20 means the same
// to everybody.
func encodeQuery(pairs []pair) string { return strings.ReplaceAll(encodeForm(pairs), "+", "%20") }

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

var errNull = errors.New("is null, which has no form in text: leave it out with .? or name a value")

// scalarText is a value where text is wanted. Numbers keep their digits.
func scalarText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", errNull
	case time.Time:
		return "", errors.New("is a time: use rfc3339(), unix() or date()")
	default:
		return "", errors.New("is a list or an object, and text is wanted: use json()")
	}
}
