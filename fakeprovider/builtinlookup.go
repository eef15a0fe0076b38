package fakeprovider

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Limits of one page of a list.
const (
	defaultPage = 10
	maxPage     = 100
)

// byID reads by the provider's own id.
func (b builtin) byID(c *Call, visible []Object) (Answer, bool) {
	at := slices.IndexFunc(visible, func(o Object) bool { return o.ID == c.Value("id") })
	if at < 0 {
		return b.notFound(), false
	}
	return Answer{Status: http.StatusOK, Body: encode(b.view(visible[at]))}, true
}

// list searches, newest first, a page at a time.
func (b builtin) list(c *Call, visible []Object) (Answer, bool) {
	filters := map[string]string{}
	limit, after := defaultPage, ""
	for name, values := range c.Query {
		value := values[0]
		switch {
		case name == "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPage {
				return *invalid("limit", "must be a number from 1 to 100"), false
			}
			limit = n
		case name == "starting_after":
			after = value
		case slices.Contains(b.filters, name):
			filters[name] = value
		default:
			// To ignore a mistyped filter would find everything.
			return failure(http.StatusBadRequest, "invalid_request_error", "unknown_parameter", "Unknown parameter: "+name+"."), false
		}
	}
	found := passing(visible, filters)
	if after != "" {
		at := slices.IndexFunc(found, func(o Object) bool { return o.ID == after })
		if at < 0 {
			return *invalid("starting_after", "names no object of this list"), false
		}
		found = found[at+1:]
	}
	return Answer{Status: http.StatusOK, Body: encode(map[string]any{
		"object": "list", "data": b.views(found[:min(limit, len(found))]), "has_more": len(found) > limit,
	})}, true
}

// byExternalID reads by the CRM's natural key. It does not lag unless a fault
// says so. Several matches (a fault, too) are answered 300 with all of them and
// nothing chosen, as CRMs with external ids do.
func (b builtin) byExternalID(c *Call, visible []Object) (Answer, bool) {
	found := passing(visible, map[string]string{"external_id": c.Value("id")})
	switch len(found) {
	case 0:
		return b.notFound(), false
	case 1:
		return Answer{Status: http.StatusOK, Body: encode(b.view(found[0]))}, true
	}
	return Answer{Status: http.StatusMultipleChoices, Body: encode(map[string]any{"object": "list", "data": b.views(found)})}, true
}

func (b builtin) views(objects []Object) []map[string]any {
	all := make([]map[string]any, 0, len(objects))
	for _, o := range objects {
		all = append(all, b.view(o))
	}
	return all
}

func (b builtin) notFound() Answer {
	return failure(http.StatusNotFound, "invalid_request_error", b.name+"_not_found", "No such "+b.name+".")
}

func passing(objects []Object, filters map[string]string) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool {
		for name, want := range filters {
			got := fmt.Sprint(fieldsOf(o)[name])
			if name == "operation_id" {
				got = o.Draft.OperationID
			}
			if got != want {
				return true
			}
		}
		return false
	})
}
