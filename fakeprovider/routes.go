package fakeprovider

import (
	"net/http"
	"slices"
	"strconv"
)

// Limits of one page of a list.
const (
	defaultPage = 10
	maxPage     = 100
)

func (p *Provider) routes() http.Handler {
	mux := http.NewServeMux()
	for _, res := range resources() {
		mux.HandleFunc("POST "+res.path, func(rw http.ResponseWriter, r *http.Request) {
			p.serve(rw, r, &res, func(x *exchange) { x.perform(&res) })
		})
		p.handleLookup(mux, res.path, func(x *exchange) answer { return x.list(&res) })
		p.handleLookup(mux, res.path+"/{id}", func(x *exchange) answer { return x.get(&res) })
	}
	p.handleLookup(mux, "/v1/contacts/by-external-id/{id}", (*exchange).contactByExternalID)
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		p.serve(rw, r, nil, func(x *exchange) {
			x.look(func(*exchange) answer {
				return failure(http.StatusNotFound, "invalid_request_error", "unknown_endpoint", "There is nothing at this method and path.")
			})
		})
	})
	p.handleControl(mux)
	return mux
}

func (p *Provider) handleLookup(mux *http.ServeMux, path string, read func(*exchange) answer) {
	mux.HandleFunc("GET "+path, func(rw http.ResponseWriter, r *http.Request) {
		p.serve(rw, r, nil, func(x *exchange) { x.look(read) })
	})
}

// get reads by the provider's own id.
func (x *exchange) get(res *resource) answer {
	o, found := x.w.store.get(res.name, x.r.PathValue("id"))
	if !found {
		return notFound(res.name)
	}
	return answer{status: http.StatusOK, body: encode(o.view(x.p.opts.Clock.Now()))}
}

// list searches, newest first, a page at a time.
func (x *exchange) list(res *resource) answer {
	filters := map[string]string{}
	limit, after := defaultPage, ""
	for name, values := range x.r.URL.Query() {
		value := values[0]
		switch {
		case name == "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPage {
				return *invalid("limit", "must be a number from 1 to 100")
			}
			limit = n
		case name == "starting_after":
			after = value
		case slices.Contains(res.filters, name):
			filters[name] = value
		default:
			// To ignore a mistyped filter would find everything.
			return failure(http.StatusBadRequest, "invalid_request_error", "unknown_parameter", "Unknown parameter: "+name+".")
		}
	}
	now := x.p.opts.Clock.Now()
	found := x.w.store.search(res.name, filters, now)
	if after != "" {
		at := slices.IndexFunc(found, func(e entry) bool { return e.id == after })
		if at < 0 {
			return *invalid("starting_after", "names no object of this list")
		}
		found = found[at+1:]
	}
	page := make([]map[string]any, 0, limit)
	for _, e := range found[:min(limit, len(found))] {
		page = append(page, e.view(now))
	}
	return answer{status: http.StatusOK, body: encode(map[string]any{
		"object": "list", "data": page, "has_more": len(found) > limit,
	})}
}

// contactByExternalID reads by the CRM's natural key. It does not lag unless a
// fault says so. Several matches (a fault, too) are answered 300 with all of
// them and nothing chosen, as CRMs with external ids do.
func (x *exchange) contactByExternalID() answer {
	now := x.p.opts.Clock.Now()
	found := x.w.store.search("contact", map[string]string{"external_id": x.r.PathValue("id")}, now)
	switch len(found) {
	case 0:
		return notFound("contact")
	case 1:
		return answer{status: http.StatusOK, body: encode(found[0].view(now))}
	}
	all := make([]map[string]any, 0, len(found))
	for _, e := range found {
		all = append(all, e.view(now))
	}
	return answer{status: http.StatusMultipleChoices, body: encode(map[string]any{"object": "list", "data": all})}
}

func notFound(resource string) answer {
	return failure(http.StatusNotFound, "invalid_request_error", resource+"_not_found", "No such "+resource+".")
}
