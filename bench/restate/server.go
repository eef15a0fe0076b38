package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	loopback     = "127.0.0.1"
	startTimeout = time.Minute
)

// restateServer is a server that runs as a child process.
type restateServer struct {
	admin, ingress string // URLs
	process        *process
	stop           context.CancelFunc
}

// startServer runs the program with its data in the folder and waits until it
// is ready. Everything is at its defaults but what names places.
func startServer(ctx context.Context, program, folder string) (*restateServer, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "restate.toml")
	err = os.WriteFile(file, fmt.Appendf(nil, `
listen-mode = "tcp"
bind-ip = %q
advertised-host = %[1]q
bind-port = %d
node-name = "bench"
base-dir = %q
disable-telemetry = true
log-filter = "warn"
log-disable-ansi-codes = true

[admin]
bind-port = %d
disable-web-ui = true

[ingress]
bind-port = %d
`, loopback, ports[0], filepath.Join(folder, "data"), ports[1], ports[2]), 0o600)
	if err != nil {
		return nil, err
	}
	url := func(port int) string { return "http://" + net.JoinHostPort(loopback, strconv.Itoa(port)) }
	child, stop := context.WithCancel(ctx)
	cmd := command(child, program, "--no-logo", "--config-file", file)
	cmd.Stdout = os.Stderr
	s := &restateServer{admin: url(ports[1]), ingress: url(ports[2]), process: start(cmd), stop: stop}
	for _, health := range []string{s.admin + "/health", s.ingress + "/restate/health"} {
		if err := s.await(ctx, health); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// close ends the server and waits until it is gone.
func (s *restateServer) close() {
	s.stop()
	<-s.process.done
}

// await polls until the page answers with 200.
func (s *restateServer) await(ctx context.Context, page string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := call(ctx, http.MethodGet, page, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-s.process.done:
			return fmt.Errorf("the server ended: %w", errors.Join(s.process.err, err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// register tells the server where the handlers are.
func (s *restateServer) register(ctx context.Context, handlers string) error {
	body, err := json.Marshal(map[string]string{"uri": handlers})
	if err != nil {
		return err
	}
	return call(ctx, http.MethodPost, s.admin+"/deployments", body)
}

// call makes a request and expects a 2xx.
func call(ctx context.Context, method, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, url, res.Status, text)
	}
	return err
}

// freePorts finds ports of the loopback interface that are free now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	held := make([]net.Listener, 0, n) // until the last is found, so that none comes twice
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for i := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("listening on %v", l.Addr())
		}
		ports[i] = addr.Port
	}
	return ports, nil
}
