package grpcaction

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// childEnv names the file in which a child records effects.
const childEnv = "ONCEWARD_GRPCACTION_CHILD"

// childMain is an adapter that applies the first attempt and dies (SIGKILL)
// before it answers.
func childMain() int {
	p := &peer{execute: func(_ context.Context, r *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
		effects, err := os.OpenFile(os.Getenv(childEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(effects, r.GetOperationId()); err != nil {
			return nil, err
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return nil, err
		}
		select {}
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(listener.Addr())
	server := grpc.NewServer()
	oncewardv1.RegisterAdapterServiceServer(server, p)
	_ = server.Serve(listener) // it is killed
	return 1
}

// TestKilledInMidCall: an adapter process that dies leaves doubt, and nothing is
// sent again; the next attempt finds nobody.
func TestKilledInMidCall(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	effects := filepath.Join(t.TempDir(), "effects")
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), childEnv+"="+effects)
	child.Stderr = t.Output()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	a := adapterAt(t, Options{Address: strings.TrimSpace(address)})
	call := callOf(t, `{}`)
	if o := a.Execute(t.Context(), call); o.Kind != actions.Ambiguous {
		t.Errorf("got %s, want ambiguous", shownOutcome(o))
	}
	_ = child.Wait() // it was killed
	wantUnsent(t, a.Execute(t.Context(), call))
	if got, err := os.ReadFile(effects); err != nil || string(got) != call.OperationID+"\n" {
		t.Errorf("effects %q (%v), want one", got, err)
	}
}
