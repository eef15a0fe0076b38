// Command exporter pretends to be a replica: it serves every metric of
// docs/metrics.md with numbers that move, so that a change of the dashboard can be
// looked at without Onceward.
//
//	go run ./cmd/exporter -listen=127.0.0.1:7071
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/deploy/catalogue"
)

func main() {
	address := flag.String("listen", "127.0.0.1:7071", "`address` of /metrics")
	page := flag.String("metrics", "../docs/metrics.md", "the catalogue's `file`")
	flag.Parse()
	if err := serve(*address, *page); err != nil {
		fmt.Fprintln(os.Stderr, "exporter:", err)
		os.Exit(1)
	}
}

func serve(address, page string) error {
	file, err := os.Open(page)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	metrics, err := catalogue.Read(file)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		write(w, metrics, began, time.Now())
	})
	fmt.Printf("http://%s/metrics\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(listener)
}

// write gives each metric a series for each value of its last label that the
// catalogue names, two at least.
func write(w io.Writer, metrics catalogue.Catalogue, began, now time.Time) {
	age := now.Sub(began).Seconds()
	for _, m := range metrics {
		_, _ = fmt.Fprintf(w, "# TYPE %s %s\n", m.Name, m.Type)
		for i := range max(2, len(m.Values)) {
			value := age*float64(1+i) + 5*math.Sin(age/10) + 5 // as a rate between 0.5 and 2.5
			of := series(m, i)
			switch m.Type {
			case "counter":
				_, _ = fmt.Fprintf(w, "%s%s %g\n", m.Name, of, value)
			case "gauge":
				if strings.HasSuffix(m.Name, "_timestamp_seconds") {
					value = float64(now.Unix())
				} else {
					value = math.Round(10 + 8*math.Sin(age/20+float64(i)))
				}
				_, _ = fmt.Fprintf(w, "%s%s %g\n", m.Name, of, value)
			case "histogram":
				for bucket, share := range map[string]float64{"0.01": 0.5, "0.1": 0.9, "1": 0.99, "+Inf": 1} {
					_, _ = fmt.Fprintf(w, "%s_bucket%s %g\n", m.Name, strings.Replace(of, "}", ",le=\""+bucket+"\"}", 1), value*share)
				}
				_, _ = fmt.Fprintf(w, "%s_sum%s %g\n%s_count%s %g\n", m.Name, of, value/20, m.Name, of, value)
			}
			if len(m.Labels) == 0 {
				break
			}
		}
	}
}

// series are the labels of a metric's i-th series. Where the catalogue names values,
// they are the last label's.
func series(m catalogue.Metric, i int) string {
	parts := []string{fmt.Sprintf("pretended=%q", "yes")}
	for at, label := range m.Labels {
		value := fmt.Sprintf("%s-%d", label, i)
		if at == len(m.Labels)-1 && i < len(m.Values) {
			value = m.Values[i]
		}
		parts = append(parts, fmt.Sprintf("%s=%q", label, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
