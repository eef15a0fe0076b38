// Command panels shows the dashboard where no Grafana is: it lets a Prometheus scrape
// replicas while a command runs, or for a time, then asks every panel's queries and
// says which had data, which alerts fired, and draws the page.
//
//	go run ./cmd/panels -targets=127.0.0.1:7071,127.0.0.1:7072 -for=5m -html=panels.html -png=panels.png
//	go run ./cmd/panels -targets-file=targets.json -png=panels.png -- ./load-test
//	go run ./cmd/panels -url=http://127.0.0.1:9090 -past=30m -html=panels.html
//
// It starts the Prometheus that it finds in PATH, on a free port of loopback and in a
// folder of its own, and ends it. -targets-file is a file_sd file, which may change
// while it runs: replicas that die come back elsewhere. Drawing a PNG wants chromium.
//
// What it found goes to standard output, and beside a command to standard error: then
// standard output is the command's, and so is the exit code when the command fails.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/onceward/onceward/deploy/panels"
)

type options struct {
	board, rules, targets, targetsFile, url string
	prometheus, html, png, chromium         string
	length, past, scrape                    time.Duration
	command                                 []string
}

func main() {
	var o options
	flag.StringVar(&o.board, "board", "grafana/dashboards/onceward.json", "dashboard `file`")
	flag.StringVar(&o.rules, "rules", "prometheus/alerts.yaml", "`file` of rules for the Prometheus that is started")
	flag.StringVar(&o.targets, "targets", "", "admin `addresses` of replicas, with commas between")
	flag.StringVar(&o.targetsFile, "targets-file", "", "file_sd `file` with admin addresses; may change")
	flag.StringVar(&o.url, "url", "", "ask the Prometheus at this `URL`, and start none")
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "`program` to start")
	flag.StringVar(&o.html, "html", "", "draw the page into this `file`")
	flag.StringVar(&o.png, "png", "", "and as a picture into this `file`")
	flag.StringVar(&o.chromium, "chromium", "chromium", "`program` that makes the picture")
	flag.DurationVar(&o.length, "for", time.Minute, "how long to scrape, where there is no command")
	flag.DurationVar(&o.past, "past", 0, "ask about this much of the past, and do not wait (with -url)")
	flag.DurationVar(&o.scrape, "scrape", time.Second, "scrape interval of the Prometheus that is started, or of the one that is asked")
	flag.Parse()
	o.command = flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "panels:", err)
		stop()
		os.Exit(codeOf(err))
	}
}

// codeOf is the exit code: that of the command, where it is the command that failed.
func codeOf(err error) int {
	var command *exec.ExitError
	if errors.As(err, &command) && command.Exited() {
		return command.ExitCode()
	}
	return 1
}

func run(ctx context.Context, o options) (err error) {
	file, err := os.Open(o.board)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	board, err := panels.Read(file)
	if err != nil {
		return err
	}
	if o.url == "" {
		folder, err := os.MkdirTemp("", "onceward-panels-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }()
		server, err := startPrometheus(ctx, o, folder)
		if err != nil {
			return err
		}
		defer server.stop()
		o.url = server.url
	}
	client, err := api.NewClient(api.Config{Address: o.url})
	if err != nil {
		return err
	}
	prometheus := v1.NewAPI(client)

	from := time.Now()
	failed := watch(ctx, o)
	if o.past > 0 {
		from = time.Now().Add(-o.past)
	}
	// The answers are wanted also when somebody ended the watching.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	span := panels.Span{From: from, To: time.Now(), RateInterval: max(15*time.Second, 4*o.scrape)}
	span.Step = max(time.Second, o.scrape, span.To.Sub(from)/200)
	answers, err := panels.Ask(asking, prometheus, board, span)
	if err != nil {
		return err
	}
	fired, err := panels.Fired(asking, prometheus, span)
	if err != nil {
		return err
	}
	out := os.Stdout
	if len(o.command) > 0 {
		out = os.Stderr
	}
	report(out, answers, fired, span.Step)
	return errors.Join(failed, render(asking, o, answers, fired, span))
}

// watch lets time go by: of the command, or as long as it was told.
func watch(ctx context.Context, o options) error {
	if o.past > 0 {
		return nil
	}
	if len(o.command) == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(o.length):
		}
		return nil
	}
	command := exec.CommandContext(ctx, o.command[0], o.command[1:]...) //nolint:gosec // what the caller wants to run
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(o.command, " "), err)
	}
	return nil
}

func report(out io.Writer, answers []panels.Answer, fired []panels.Series, step time.Duration) {
	var moved, still, empty, wrong []string
	for _, a := range answers {
		name := a.Row + " / " + a.Title
		switch {
		case a.Err != nil:
			wrong = append(wrong, name+": "+a.Err.Error())
		case !a.HasData():
			empty = append(empty, name)
		case !a.Moved():
			still = append(still, name)
		default:
			moved = append(moved, name)
		}
	}
	for _, l := range []struct {
		title string
		names []string
	}{{"with data", moved}, {"zero all the time", still}, {"without data", empty}, {"refused by Prometheus", wrong}} {
		_, _ = fmt.Fprintf(out, "%d %s\n", len(l.names), l.title)
		for _, n := range l.names {
			_, _ = fmt.Fprintln(out, "  ", n)
		}
	}
	_, _ = fmt.Fprintf(out, "%d alerts fired\n", len(fired))
	for _, s := range fired {
		first, last := s.Points[0].Timestamp.Time(), s.Points[len(s.Points)-1].Timestamp.Time()
		_, _ = fmt.Fprintf(out, "   %s: %s of the time between %s and %s\n", s.Name,
			(time.Duration(len(s.Points)) * step).Round(time.Second), first.Format(time.TimeOnly), last.Format(time.TimeOnly))
	}
}

func render(ctx context.Context, o options, answers []panels.Answer, fired []panels.Series, span panels.Span) (err error) {
	if o.html == "" {
		if o.png == "" {
			return nil
		}
		o.html = strings.TrimSuffix(o.png, filepath.Ext(o.png)) + ".html"
	}
	file, err := os.Create(o.html)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := panels.Write(file, "Onceward", answers, fired, span); err != nil {
		return err
	}
	if o.png == "" {
		return nil
	}
	page, err := filepath.Abs(o.html)
	if err != nil {
		return err
	}
	picture, err := filepath.Abs(o.png)
	if err != nil {
		return err
	}
	// As root it has no sandbox; the page is ours and loads nothing.
	out, err := exec.CommandContext(ctx, o.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", //nolint:gosec // a flag
		"--window-size=1600,4800", "--screenshot="+picture, "file://"+page).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", o.chromium, err, out)
	}
	return nil
}

// targetsOf writes the addresses into a file_sd file, unless the caller has one.
func targetsOf(o options, folder string) (string, error) {
	if o.targetsFile != "" {
		return filepath.Abs(o.targetsFile)
	}
	if o.targets == "" {
		return "", errors.New("want -targets, -targets-file or -url")
	}
	raw, err := json.Marshal([]map[string]any{{"targets": strings.Split(o.targets, ",")}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "targets.json")
	return file, os.WriteFile(file, raw, 0o600)
}
