package declared

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
)

// body is a compiled body of a request.
type body interface {
	// render returns the bytes and their media type. place, if not nil, puts the
	// key into the fields before they are written.
	render(vars expr.Vars, place func(any) error, seed string) (content []byte, mediaType string, err error)
	// holdsFields reports whether a key can be a field of it.
	holdsFields() bool
}

const (
	mediaJSON = "application/json"
	mediaForm = "application/x-www-form-urlencoded"
)

// body compiles the body of a request; nil where it has none.
func (c *compiler) body(env *expr.Env, field string, r *definition.Request, typed bool) body {
	var found []body
	if r.JSON != nil {
		found = append(found, jsonBody{c.tree(env, field+".json", r.JSON), orText(r.ContentType, mediaJSON)})
	}
	if r.Form != nil {
		found = append(found, formBody{c.tree(env, field+".form", r.Form), orText(r.ContentType, mediaForm), listStyle(r.Lists)})
	}
	if r.Multipart != nil {
		found = append(found, multipartBody{c.tree(env, field+".multipart", r.Multipart), orText(r.ContentType, "multipart/form-data")})
	}
	if r.GraphQL != nil {
		variables := map[string]any{}
		if r.GraphQL.Variables != nil {
			variables = r.GraphQL.Variables
		}
		found = append(found, graphQLBody{
			query:     c.template(c.envs.graphql, field+".graphql.query", r.GraphQL.Query),
			variables: c.tree(env, field+".graphql.variables", variables),
			media:     orText(r.ContentType, mediaJSON),
		})
	}
	if r.Raw != nil {
		if r.ContentType == "" && !typed {
			c.bad(field+".content_type", "a raw body wants one")
		}
		found = append(found, rawBody{c.template(env, field+".raw", *r.Raw), r.ContentType})
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1:
		c.bad(field, "want at most one of json, form, multipart, graphql and raw")
	}
	return found[0]
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// fields returns the value of a body, with the key in its place.
func fields(tree *expr.Tree, vars expr.Vars, place func(any) error) (any, error) {
	value, err := tree.Value(vars)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if value == expr.Omitted {
		return nil, errors.New("the body is an empty optional")
	}
	if place == nil {
		return value, nil
	}
	return value, place(value)
}

// jsonBody is written with sorted members, without white space, numbers as they
// came.
type jsonBody struct {
	tree  *expr.Tree
	media string
}

func (b jsonBody) holdsFields() bool { return true }

func (b jsonBody) render(vars expr.Vars, place func(any) error, _ string) ([]byte, string, error) {
	value, err := fields(b.tree, vars, place)
	if err != nil {
		return nil, "", err
	}
	content, err := expr.Encode(value)
	return content, b.media, err
}

type formBody struct {
	tree  *expr.Tree
	media string
	lists listStyle
}

func (b formBody) holdsFields() bool { return true }

func (b formBody) render(vars expr.Vars, place func(any) error, _ string) ([]byte, string, error) {
	value, err := fields(b.tree, vars, place)
	if err != nil {
		return nil, "", err
	}
	object, _ := value.(map[string]any)
	pairs, err := pairsOf(object, b.lists)
	if err != nil {
		return nil, "", fmt.Errorf("form: %w", err)
	}
	return []byte(encodeForm(pairs)), b.media, nil
}

type graphQLBody struct {
	query     *expr.Template
	variables *expr.Tree
	media     string
}

func (b graphQLBody) holdsFields() bool { return true }

func (b graphQLBody) render(vars expr.Vars, place func(any) error, _ string) ([]byte, string, error) {
	query, err := b.query.Text(vars, nil)
	if err != nil {
		return nil, "", fmt.Errorf("graphql.query: %w", err)
	}
	variables, err := b.variables.Value(vars)
	if err != nil {
		return nil, "", fmt.Errorf("graphql.variables: %w", err)
	}
	value := map[string]any{"query": query, "variables": variables}
	if place != nil {
		if err := place(value); err != nil {
			return nil, "", err
		}
	}
	content, err := expr.Encode(value)
	return content, b.media, err
}

type rawBody struct {
	text  *expr.Template
	media string
}

func (rawBody) holdsFields() bool { return false }

func (b rawBody) render(vars expr.Vars, _ func(any) error, _ string) ([]byte, string, error) {
	text, err := b.text.Text(vars, nil)
	if err != nil {
		return nil, "", fmt.Errorf("raw: %w", err)
	}
	return []byte(text), b.media, nil
}

// multipartBody has a part for each member, sorted by name, and one for each item
// of a list. A member that is an object with content is a file: filename and
// content_type beside it.
type multipartBody struct {
	tree  *expr.Tree
	media string
}

func (multipartBody) holdsFields() bool { return true }

func (b multipartBody) render(vars expr.Vars, place func(any) error, seed string) ([]byte, string, error) {
	value, err := fields(b.tree, vars, place)
	if err != nil {
		return nil, "", err
	}
	object, _ := value.(map[string]any)
	sum := sha256.Sum256([]byte("multipart boundary " + seed))
	boundary := "onceward-" + hex.EncodeToString(sum[:16])
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary); err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		items, isList := object[name].([]any)
		if !isList {
			items = []any{object[name]}
		}
		for _, item := range items {
			if err := writePart(w, name, item, boundary); err != nil {
				return nil, "", fmt.Errorf("multipart: %s: %w", name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return out.Bytes(), b.media + "; boundary=" + boundary, nil
}

func writePart(w *multipart.Writer, name string, value any, boundary string) error {
	header := textproto.MIMEHeader{}
	disposition := `form-data; name="` + quoteParameter(name) + `"`
	if file, ok := value.(map[string]any); ok {
		for _, member := range []string{"filename", "content_type"} {
			text, there := file[member].(string)
			if !there {
				continue
			}
			if strings.ContainsAny(text, "\r\n\x00") {
				return fmt.Errorf("%s has a line break", member)
			}
			if member == "filename" {
				disposition += `; filename="` + quoteParameter(text) + `"`
			} else {
				header.Set("Content-Type", text)
			}
		}
		value = file["content"]
	}
	header.Set("Content-Disposition", disposition)
	text, err := scalarText(value)
	if err != nil {
		return err
	}
	// Who could put the boundary into a value could add parts.
	if strings.Contains(text, boundary) {
		return errors.New("holds the boundary between the parts")
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = part.Write([]byte(text))
	return err
}

// quoteParameter writes a name as browsers do (HTML, multipart form data).
func quoteParameter(name string) string {
	return strings.NewReplacer("\n", "%0A", "\r", "%0D", `"`, "%22").Replace(name)
}
