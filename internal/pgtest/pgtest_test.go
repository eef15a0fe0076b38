package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// counted is a template that counts in times how often it was prepared. Its
// name is new for each counter, so that go test -count works.
func counted(times *atomic.Int32) Template {
	return Template{Name: fmt.Sprintf("counted-%p", times), Prepare: func(ctx context.Context, url string) error {
		times.Add(1)
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		// Left open on purpose: copying must work all the same.
		_, err = conn.Exec(ctx, "CREATE TABLE item (id int PRIMARY KEY); INSERT INTO item VALUES (1)")
		return err
	}}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Logf("closing a connection: %v", err) // the server may be gone
		}
	})
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestNewDatabaseIsOnesOwn(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	tpl := counted(&times)
	var urls sync.Map
	t.Cleanup(func() { // after the parallel subtests
		if n := times.Load(); n != 1 {
			t.Errorf("the template was prepared %d times, want 1", n)
		}
	})
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			url := NewDatabase(t, tpl)
			if other, loaded := urls.LoadOrStore(url, i); loaded {
				t.Fatalf("tests %v and %d got the same database", other, i)
			}
			conn := connect(t, url)
			exec(t, conn, "INSERT INTO item VALUES (2)") // fails in a shared database
			if n := count(t, conn, "SELECT count(*) FROM item"); n != 2 {
				t.Errorf("database holds %d items, want the template's and our own", n)
			}
		})
	}
}

func TestDatabaseIsDroppedThoughConnectionsAreOpen(t *testing.T) {
	var name string
	t.Run("test", func(t *testing.T) {
		url := NewDatabase(t, Template{})
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		name = conn.Config().Database
		// The connection is neither closed nor used again.
	})
	conn := connect(t, AdminURL(t))
	if n := count(t, conn, "SELECT count(*) FROM pg_database WHERE datname = $1", name); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func TestTemplateFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	c := shared(t)
	tpl := Template{Name: fmt.Sprintf("fails-%p", &boom), Prepare: func(context.Context, string) error { return boom }}
	for range 2 { // the second time from memory
		if _, err := c.template(tpl); !errors.Is(err, boom) {
			t.Errorf("error is %v, want %v", err, boom)
		}
	}
	if _, err := c.template(Template{Prepare: tpl.Prepare}); err == nil {
		t.Error("a template without a name was accepted")
	}
}

func TestExternalServer(t *testing.T) {
	// Our own server plays the one that is not ours.
	c, err := externalCluster(AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	var times atomic.Int32
	t.Run("test", func(t *testing.T) {
		conn := connect(t, c.newDatabase(t, counted(&times)))
		if n := count(t, conn, "SELECT count(*) FROM item"); n != 1 {
			t.Errorf("database holds %d items, want 1", n)
		}
	})
	if err := c.dropTemplates(t.Context()); err != nil {
		t.Error(err)
	}
	conn := connect(t, AdminURL(t))
	if n := count(t, conn, "SELECT count(*) FROM pg_database WHERE datname LIKE $1", "%"+c.id+"%"); n != 0 {
		t.Errorf("%d databases are left on the server", n)
	}
	if _, err := externalCluster("host=localhost user=x"); err == nil || !strings.Contains(err.Error(), EnvURL) {
		t.Errorf("error is %v, want one that names %s", err, EnvURL)
	}
}

func TestServerStopsKillsAndStarts(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	server := NewServer(t, map[string]string{"max_connections": "17"})
	url := server.NewDatabase(t, counted(&times))
	conn := connect(t, url)
	if n := count(t, conn, "SELECT current_setting('max_connections')::int"); n != 17 {
		t.Errorf("max_connections is %d, want the given 17", n)
	}
	items := 1
	for _, end := range []struct {
		name string
		do   func(testing.TB)
	}{{"stop", server.Stop}, {"kill", server.Kill}} {
		items++
		exec(t, conn, fmt.Sprintf("INSERT INTO item VALUES (%d)", items))
		end.do(t)
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Fatalf("after %s the server answers", end.name)
		}
		end.do(t) // harmless
		began := time.Now()
		server.Start(t)
		t.Logf("start after %s took %s", end.name, time.Since(began).Round(time.Millisecond))
		conn = connect(t, url) // the URL did not change
		if n := count(t, conn, "SELECT count(*) FROM item"); n != items {
			t.Errorf("after %s the database holds %d items, want %d: a commit was lost", end.name, n, items)
		}
	}
}

func TestRemoveStale(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ages := map[string]time.Duration{tempPattern + "old": staleAfter + time.Hour, tempPattern + "new": 0, "other": staleAfter + time.Hour}
	for name, age := range ages {
		dir := base + "/" + name
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(base)
	for name := range ages {
		_, err := os.Stat(base + "/" + name)
		if want := name != tempPattern+"old"; (err == nil) != want {
			t.Errorf("folder %s is there: %t, want %t", name, err == nil, want)
		}
	}
}
