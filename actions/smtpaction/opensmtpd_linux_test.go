//go:build opensmtpd

package smtpaction_test

import (
	"bufio"
	"fmt"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/smtpaction"
)

// program is Debian's and Ubuntu's OpenSMTPD.
const program = "/usr/sbin/smtpd"

// mailbox is a real mail server on this machine that keeps what it delivers.
type mailbox struct {
	port int
	dir  string // of a maildir
}

// opensmtpd runs a private OpenSMTPD: in a mount namespace, because its spool
// and socket have places that cannot be configured, and in a process namespace,
// so that all its processes end with the test. It accepts mail for
// example.test, on plain text: the TLS of Debian's build (6.8 with OpenSSL 3)
// fails each handshake.
func opensmtpd(t *testing.T) mailbox {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatal("this test wants a real mail server: apt-get install -y opensmtpd")
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test runs OpenSMTPD, which wants root: run the tests as root, or in a container")
	}
	dir := t.TempDir()
	box := mailbox{dir: filepath.Join(dir, "mail")}
	config := filepath.Join(dir, "smtpd.conf")
	owner, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	for _, err := range []error{
		os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), // the server has other accounts
		os.Mkdir(box.dir, 0o700), os.Chown(box.dir, uid, gid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	box.port = listener.Addr().(*net.TCPAddr).Port
	text := fmt.Sprintf("table users { \"@\" = nobody }\nlisten on 127.0.0.1 port %d hostname mx.test\n"+
		"action keep maildir %q virtual <users>\nmatch from any for domain \"example.test\" action keep\n", box.port, box.dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	listener.Close()
	run(t, exec.CommandContext(t.Context(), "/bin/sh", "-c",
		"mount -t tmpfs -o mode=755 none /var/spool && mkdir -m 711 /var/spool/smtpd && mount -t tmpfs -o mode=755 none /run && exec "+program+" -d -f "+config))
	eventually(t, "the server's greeting", func() bool { return greets(box.port) })
	return box
}

// run starts a program in namespaces of its own, and kills it with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// Pdeathsig is about the thread that starts the process.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		t.Fatalf("OpenSMTPD does not start in namespaces of its own: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the server said:\n%s", log.String())
		}
	})
}

func greets(port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "220 ")
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// delivered waits for n mails and returns them.
func (b mailbox) delivered(t *testing.T, n int) []*mail.Message {
	t.Helper()
	var names []string
	eventually(t, fmt.Sprintf("%d mails", n), func() bool {
		names, _ = filepath.Glob(filepath.Join(b.dir, "new", "*"))
		return len(names) >= n
	})
	var mails []*mail.Message
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		mails = append(mails, m)
	}
	if len(mails) != n {
		t.Errorf("%d mails were delivered, want %d", len(mails), n)
	}
	return mails
}

// local is the mail of the tests, to a recipient that the real server knows.
func local(c actions.Call) (smtpaction.Message, error) {
	m, err := invoice(c)
	m.To, m.Cc = m.To[:1], nil
	return m, err
}

// A real server takes one mail and delivers it with our Message-ID; it refuses
// a recipient, and then nobody gets anything.
func TestRealServer(t *testing.T) {
	t.Parallel()
	box := opensmtpd(t)
	o := options(box.port)
	o.Message = local
	out := execute(t, action(t, o), call(t, `{}`))
	wantKind(t, out, actions.Applied, "")
	if !strings.Contains(out.Receipt.Reference, "Message accepted for delivery") || !strings.Contains(string(out.Receipt.JSON), providerKey) {
		t.Errorf("receipt is %q %s", out.Receipt.Reference, out.Receipt.JSON)
	}

	o.Message = func(c actions.Call) (smtpaction.Message, error) {
		m, err := local(c)
		m.To = append(m.To, mail.Address{Address: "li@elsewhere.test"})
		return m, err
	}
	out = execute(t, action(t, o), call(t, `{}`))
	wantKind(t, out, actions.Rejected, "recipient_refused")
	if !strings.Contains(out.Failure.Evidence, "RCPT 2 of 2: 550") {
		t.Errorf("evidence is %q", out.Failure.Evidence)
	}

	// A second mail under another id shows that the first came once, and the
	// refused one not at all.
	o.Message = local
	second := call(t, `{}`)
	second.ProviderKey = "zzz3456789abcdefghijklmnop"
	wantKind(t, execute(t, action(t, o), second), actions.Applied, "")
	ids := map[string]int{}
	for _, m := range box.delivered(t, 2) {
		ids[m.Header.Get("Message-Id")]++
		body := make([]byte, 100)
		n, _ := m.Body.Read(body)
		if got, want := string(body[:n]), "Please pay.\n.\nThank you.\n"; strings.ReplaceAll(got, "\r", "") != want {
			t.Errorf("body is %q, want %q", got, want)
		}
		if got := m.Header.Get("Date"); got != "Mon, 15 Jul 2024 09:01:27 +0000" {
			t.Errorf("date is %q", got)
		}
	}
	if ids[messageID] != 1 || len(ids) != 2 {
		t.Errorf("Message-IDs are %v, want %s once", ids, messageID)
	}
}
