package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/onceward/onceward/deploy/panels"
)

// server is a Prometheus of our own.
type server struct {
	url  string
	stop func() // ends it, and waits until it has
}

// startPrometheus starts one and waits until it answers. It gives up with what the
// program said when it ends first, or after half a minute.
func startPrometheus(ctx context.Context, o options, folder string) (*server, error) {
	targets, err := targetsOf(o, folder)
	if err != nil {
		return nil, err
	}
	rules, err := filepath.Abs(o.rules)
	if err != nil {
		return nil, err
	}
	text, err := panels.Configuration(o.scrape, rules, targets)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // it cannot choose a port by itself
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(folder, "prometheus.log"))
	if err != nil {
		return nil, err
	}
	// Not bound to ctx: its answers are wanted after the watching was ended.
	command := exec.Command(o.prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), //nolint:gosec,noctx // a flag
		"--web.listen-address="+address)
	command.Stdout, command.Stderr = logs, logs
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w (on Debian and Ubuntu: apt-get install prometheus)", o.prometheus, err)
	}
	s := &server{url: "http://" + address}
	var how error // once it has ended
	ended := make(chan struct{})
	go func() {
		how = command.Wait()
		close(ended)
	}()
	s.stop = func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = logs.Close()
	}
	give, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ready(give, s.url+"/-/ready") {
		select {
		case <-ended:
			said, _ := os.ReadFile(logs.Name())
			return nil, fmt.Errorf("%s ended: %w\n%s", o.prometheus, how, said)
		case <-give.Done():
			s.stop()
			return nil, fmt.Errorf("%s does not get ready", o.prometheus)
		case <-tick.C:
		}
	}
	return s, nil
}

func ready(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}
