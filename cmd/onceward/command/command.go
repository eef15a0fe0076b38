package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
)

// Options extend the binary.
type Options struct {
	// Adapters are registered by dev and serve, beside the demo ones.
	Adapters []actions.Adapter
	// Stdin, Stdout and Stderr default to the process's.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// cli is the command line.
type cli struct {
	Dev          devCmd          `cmd:"" help:"Run everything on this machine: private Postgres, fake provider, demo tenants and keys."`
	Serve        serveCmd        `cmd:"" help:"Run the service on your Postgres."`
	Migrate      migrateCmd      `cmd:"" help:"Bring the ledger's schema up to date."`
	Doctor       doctorCmd       `cmd:"" help:"Look at an installation: database settings, clock, connections, schema, contracts."`
	Demo         demoCmd         `cmd:"" help:"Show the double charge with and without Onceward, on one screen."`
	Request      requestCmd      `cmd:"" help:"Request an action."`
	Get          getCmd          `cmd:"" help:"Show one operation."`
	List         listCmd         `cmd:"" help:"List operations, newest first."`
	Watch        watchCmd        `cmd:"" help:"Follow an operation until it is final."`
	Cancel       cancelCmd       `cmd:"" help:"Give up an operation that has not been sent."`
	Check        checkCmd        `cmd:"" help:"Check files with providers and actions."`
	Verify       verifyCmd       `cmd:"" help:"Prove declared actions safe: every ugly path, against a simulated provider."`
	Simulate     simulateCmd     `cmd:"" help:"Run a simulated provider that plays a contract and misbehaves on request."`
	Catalog      catalogCmd      `cmd:"" help:"Show the contracts that Onceward ships, and copy them."`
	Schema       schemaCmd       `cmd:"" help:"Print the JSON Schema of a kind of file, for editors."`
	Policy       policyCmd       `cmd:"" help:"Check and test the tenants' policies, and show the one in force."`
	Actions      actionsCmd      `cmd:"" help:"List the action types, or show one."`
	Reviews      reviewsCmd      `cmd:"" help:"List the decisions that wait for a person."`
	Resolve      resolveCmd      `cmd:"" help:"Decide a review."`
	Stats        statsCmd        `cmd:"" help:"Show how many duplicates were prevented, of what and why."`
	Observe      observeCmd      `cmd:"" help:"Predict what enforcing would do, from what was observed."`
	Tenants      tenantsCmd      `cmd:"" help:"Create and list tenants, and switch them on or off."`
	Keys         keysCmd         `cmd:"" help:"Create, list, rotate and revoke API keys."`
	Identity     identityCmd     `cmd:"" help:"Check issuers of tokens and rules for certificates."`
	Audit        auditCmd        `cmd:"" help:"Read and verify the audit record; export and drop its old days."`
	Stop         stopCmd         `cmd:"" help:"Stop actions at once: all, of one type, or of one provider."`
	Resume       resumeCmd       `cmd:"" help:"Let stopped actions go on."`
	Stops        stopsCmd        `cmd:"" help:"List what is stopped."`
	Restore      restoreCmd      `cmd:"" help:"Recover a ledger that came back from a backup, so that nothing is sent twice."`
	Secrets      secretsCmd      `cmd:"" help:"Create the secrets of an installation, and rotate its keys."`
	Receipt      receiptCmd      `cmd:"" help:"Get a signed receipt, or check one without asking."`
	Guard        guardCmd        `cmd:"" help:"Find what internal services left unresolved, and say how it ended."`
	Fakeprovider fakeproviderCmd `cmd:"" help:"Run a provider that misbehaves on request."`
	Version      versionCmd      `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs the command line and returns the exit code: 0, 1 for an error (one
// line on standard error), 2 for wrong usage.
func Main(args []string, o Options) int {
	s := streams{in: o.Stdin, out: o.Stdout, err: o.Stderr}
	if s.in == nil {
		s.in = os.Stdin
	}
	if s.out == nil {
		s.out = os.Stdout
	}
	if s.err == nil {
		s.err = os.Stderr
	}
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("onceward"),
		kong.Description("The write firewall for AI agents: one key, one effect.\n\nStart with: onceward dev"),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintln(s.err, "onceward:", err)
		return exitUsage
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help has printed
		return exited
	}
	if err != nil {
		fmt.Fprintf(s.err, "onceward: %s%s (see %s --help)\n", err, fromEnvironment(err), askedFor(err))
		return exitUsage
	}
	ctx, stop := untilSignalled()
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(s, o); err != nil {
		if ctx.Err() != nil && status.Code(err) == codes.Canceled { // a client command
			err = errLeft
		}
		fmt.Fprintln(s.err, "onceward:", oneLine(err))
		if errors.Is(err, errUsage) {
			return exitUsage
		}
		return exitError
	}
	return exitOK
}

// untilSignalled returns a context that ends with the first signal to stop. The second
// one ends the process: who interrupts twice does not want to wait. It does so from
// before the context ends, so that whoever sees that the first one had an effect can
// count on it.
func untilSignalled() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signalled := make(chan os.Signal, 1)
	signal.Notify(signalled, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signalled:
		case <-ctx.Done():
		}
		signal.Stop(signalled)
		cancel()
	}()
	return ctx, cancel
}

var (
	// errUsage marks errors in what was typed.
	errUsage = errors.New("wrong usage")
	// errLeft stands for a call that the user did not wait for.
	errLeft = errors.New("interrupted; what was requested goes on, and asking again with the same key is safe")
)

// askedFor names the command that an error of the parser is about.
func askedFor(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "onceward"
}

// fromEnvironment names the variables that would have done for flags that are
// missing.
func fromEnvironment(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "missing flags") {
		return ""
	}
	var names []string
	for _, flag := range wrong.Context.Flags() {
		if flag.Required && !flag.Set {
			for _, name := range flag.Envs {
				names = append(names, name+" for --"+flag.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; the environment may say it too: " + strings.Join(names, ", ")
}

// newLog makes the logger of a service that a person looks at.
func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(logForm(level, false)(w))
}

// logLevel is a flag; a wrong one is answered with those there are.
type logLevel slog.Level

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *logLevel) UnmarshalText(text []byte) error {
	if (*slog.Level)(l).UnmarshalText(text) != nil {
		return fmt.Errorf("want debug, info, warn or error, not %q", text)
	}
	return nil
}

// logForm is how lines are written.
func logForm(level slog.Level, asJSON bool) func(io.Writer) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	return func(w io.Writer) slog.Handler {
		if asJSON {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
}
