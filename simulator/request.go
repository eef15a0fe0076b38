package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/fakeprovider"
)

// requestOf is the variable request: method, path, query, header, body and text.
// A body that is not what its content type says is an error; the rest is there
// then too.
func requestOf(c *fakeprovider.Call) (map[string]any, error) {
	header := map[string]any{}
	for name, values := range c.Header {
		header[strings.ToLower(name)] = values[0]
	}
	query := nested(c.Query)
	for name, values := range c.Query {
		// A parameter with brackets is also there under its whole name.
		if _, known := query[name]; !known {
			query[name] = oneOrList(values)
		}
	}
	body, err := parseBody(c.Header.Get("Content-Type"), c.Body)
	return map[string]any{
		"method": c.Method, "path": c.Path, "query": query, "header": header,
		"body": body, "text": strings.ToValidUTF8(string(c.Body), "\uFFFD"),
	}, err
}

// maxParts bounds a multipart body, maxDepth how deep names nest.
const (
	maxParts = 1000
	maxDepth = 20
)

// parseBody reads a body as its content type says: JSON, a form, or multipart;
// everything else is a text. No body is null.
func parseBody(contentType string, body []byte) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("the content type %q cannot be read", contentType)
	}
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return parseJSON(body)
	case kind == "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errors.New("the body is no form")
		}
		return nested(values), nil
	case kind == "multipart/form-data":
		return parseMultipart(body, parameters["boundary"])
	case !utf8.Valid(body):
		return nil, errors.New("the body is no text in UTF-8")
	}
	return string(body), nil
}

func parseJSON(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body goes on after its JSON value")
	}
	return value, nil
}

// parseMultipart reads fields as a form's; a file is an object with filename,
// content_type, size and content.
func parseMultipart(body []byte, boundary string) (any, error) {
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	values := url.Values{}
	files := map[string]any{}
	for range maxParts {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			out := nested(values)
			for name, file := range files {
				out[name] = file
			}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the body is no multipart form: %w", err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("the body is no multipart form: %w", err)
		}
		text := strings.ToValidUTF8(string(content), "\uFFFD")
		if part.FileName() == "" {
			values.Add(part.FormName(), text)
			continue
		}
		files[part.FormName()] = map[string]any{
			"filename": part.FileName(), "content_type": part.Header.Get("Content-Type"),
			"size": int64(len(content)), "content": text,
		}
	}
	return nil, errors.New("the body has too many parts")
}
