package hostile

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/internal/apptest"
)

// everywhere is text that must hold no secret, by where it came from. It is safe
// for concurrent use.
type everywhere struct {
	mu   sync.Mutex
	text map[string]*bytes.Buffer
}

func (e *everywhere) tell(where string, what ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.text[where]
	if b == nil {
		b = &bytes.Buffer{}
		e.text[where] = b
	}
	fmt.Fprintln(b, what...)
}

func (e *everywhere) holds(where, word string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text[where] != nil && bytes.Contains(e.text[where].Bytes(), []byte(word))
}

// writer returns a writer to a place.
func (e *everywhere) writer(where string) io.Writer {
	return writerFunc(func(p []byte) (int, error) { e.tell(where, string(p)); return len(p), nil })
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// answered notes what a caller was told.
func (e *everywhere) answered(m proto.Message, err error) {
	if err != nil {
		st := status.Convert(err)
		e.tell("errors", st.Message())
		for _, d := range st.Details() {
			e.tell("errors", fmt.Sprint(d))
		}
		return
	}
	e.tell("answers", prototext.Format(m))
}

// forms are how a secret may look elsewhere.
func forms(secret string) []string {
	return []string{
		secret, hex.EncodeToString([]byte(secret)), url.QueryEscape(secret),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

// scrape returns all that a page of the admin listener says.
func scrape(t *testing.T, address, bearer string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.Status, resp.Header, "\n", string(body))
}

func post(t *testing.T, address, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// tablesAsText reads every table of the ledger, row by row, as text.
func tablesAsText(t *testing.T, w *apptest.World) map[string]string {
	t.Helper()
	conn := w.Database.Owner(t)
	rows, err := conn.Query(t.Context(), `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("only %d tables", len(names))
	}
	texts := map[string]string{}
	for _, name := range names {
		var text string
		if err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, E'\n'), '') FROM `+pgx.Identifier{name}.Sanitize()+` t`).Scan(&text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		texts[name] = text
	}
	return texts
}
