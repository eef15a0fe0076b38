package panels_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/onceward/onceward/deploy/panels"
)

const board = `{"panels":[
 {"type":"row","title":"Row"},
 {"type":"stat","id":1,"title":"Tile","fieldConfig":{"defaults":{"unit":"short","thresholds":{"steps":[{"value":null,"color":"green"},{"value":1,"color":"red"}]},
  "mappings":[{"options":{"0":{"text":"DOWN"}}}]}},"targets":[{"expr":"zero"}]},
 {"type":"timeseries","id":2,"title":"Lines","targets":[{"expr":"two{t=~\"$tenant\"}[$__rate_interval]","legendFormat":"of {{a}}"},{"expr":"none"}]},
 {"type":"timeseries","id":3,"title":"Refused","targets":[{"expr":"broken"}]}],
 "templating":{"list":[{"name":"tenant","type":"query","query":"label_values(m, tenant)"}]},"annotations":{"list":[{"expr":"stops"}]}}`

// prometheus answers as the real one does: two series, nothing, or a refusal.
func prometheus(t *testing.T) v1.API {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		w.Header().Set("Content-Type", "application/json")
		switch query {
		case "broken":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"parse error"}`))
		case "none":
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
		case "zero":
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[100,"0"]]}]}}`))
		case `two{t=~".*"}[15s]`:
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[
				{"metric":{"a":"<y>"},"values":[[100,"1"],[101,"7"]]},{"metric":{"a":"x"},"values":[[100,"NaN"]]}]}}`))
		default:
			t.Errorf("asked %q", query)
		}
	}))
	t.Cleanup(server.Close)
	client, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return v1.NewAPI(client)
}

func TestAskAndDraw(t *testing.T) {
	b, err := panels.Read(strings.NewReader(board))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.Others, "; "); got != "group by (tenant) (m); stops" {
		t.Errorf("questions of variables and annotations: %s", got)
	}
	span := panels.Span{From: time.Unix(100, 0), To: time.Unix(110, 0), Step: time.Second, RateInterval: 15 * time.Second}
	answers, err := panels.Ask(t.Context(), prometheus(t), b, span)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ data, moved, wrong bool }{{true, false, false}, {true, true, false}, {false, false, true}} {
		a := answers[i]
		if a.HasData() != want.data || a.Moved() != want.moved || (a.Err != nil) != want.wrong {
			t.Errorf("%s: data %t, moved %t, error %v; want %+v", a.Title, a.HasData(), a.Moved(), a.Err, want)
		}
	}
	if s := answers[1].Series; len(s) != 1 || s[0].Name != "of <y>" || s[0].Last() != 7 || s[0].Max() != 7 {
		t.Errorf("series %+v: want one, of <y>, that ends with 7", s)
	}
	var page strings.Builder
	if err := panels.Write(&page, "Title", answers, nil, span); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<b>DOWN</b>", "of &lt;y&gt;", "parse error", "M0.0", "max 7"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	b, err := panels.Read(strings.NewReader(board))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := panels.Ask(ctx, prometheus(t), b, panels.Span{From: time.Unix(1, 0), To: time.Unix(2, 0), Step: time.Second}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, file := range []string{`{`, `{"templating":{"list":[{"name":"v","type":"query","query":"metrics()"}]}}`} {
		if _, err := panels.Read(strings.NewReader(file)); err == nil {
			t.Errorf("%s passed", file)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		value      float64
		unit, want string
	}{
		{0.25, "s", "250 ms"}, {90, "s", "90 s"}, {600, "s", "10 min"}, {14400, "s", "4 h"},
		{0.05, "percentunit", "5 %"}, {1 << 20, "bytes", "1 MiB"}, {2, "ops", "2/s"}, {3, "short", "3"},
	} {
		if got := panels.Format(c.value, c.unit); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestConfiguration(t *testing.T) {
	got, err := panels.Configuration(time.Second, "/rules.yaml", "/targets/*.json")
	if err != nil || !strings.Contains(got, `rule_files: ["/rules.yaml"]`) || !strings.Contains(got, "job_name: onceward") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := panels.Configuration(time.Second, `/a"b`, ""); err == nil {
		t.Error("a path that ends its string passed")
	}
	if !json.Valid([]byte(board)) {
		t.Error("the board of these tests is no JSON")
	}
}
