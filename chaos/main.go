package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/chaos/campaign"
	"github.com/onceward/onceward/chaos/replica"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends it at once, without a judgement. One that comes right after the
	// first is the first: make, timeout and their kin pass on what the terminal sends as well.
	context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Second, stop) })
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: a campaign, or a replica in one. It returns the exit code: 1 for
// a law that was broken, 2 for a campaign that could not be run.
func run(ctx context.Context, args []string, in io.Reader, out, logs io.Writer) int {
	if told := os.Getenv(replica.Env); told != "" {
		if err := replica.Run(ctx, told, in, out, logs); err != nil {
			fmt.Fprintln(logs, "replica:", err)
			return 1
		}
		return 0
	}
	o, err := options(args, logs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(logs, "chaos:", err)
		return 2
	}
	result, err := campaign.Run(ctx, o)
	return report(result, err, o, out, logs)
}

// report prints the result, which is the last line whatever came out, and returns the
// exit code. The databases of a campaign in which all laws held are of no use to anybody.
func report(result campaign.Result, err error, o campaign.Options, out, logs io.Writer) int {
	if encoding := json.NewEncoder(out).Encode(result); encoding != nil {
		err = errors.Join(err, encoding)
	}
	switch {
	case err != nil:
		fmt.Fprintf(logs, "chaos: %v (logs are in %s)\n", err, o.Dir)
		return 2
	case result.Violations > 0:
		fmt.Fprintf(logs, "chaos: %d violations; what is known of each is in %s\n", result.Violations, result.Stories)
		return 1
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, "postgres")); err != nil {
		fmt.Fprintln(logs, "chaos:", err)
	}
	return 0
}

// memory is a file system in memory, where there is one: what a process that is killed
// has written is as safe there, and two servers that flush for real are slow on disks.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return ""
}

// options reads the command line.
func options(args []string, logs io.Writer) (campaign.Options, error) {
	o := campaign.Options{Log: slog.New(slog.NewTextHandler(logs, nil))}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(logs)
	flags.Uint64Var(&o.Seed, "seed", 0, "the schedule of faults and requests; 0 takes one from the clock")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long there are faults and requests")
	flags.IntVar(&o.Replicas, "replicas", 3, "replicas that serve callers; one more only reconciles")
	flags.IntVar(&o.Clients, "clients", 24, "callers at once")
	flags.Float64Var(&o.Rate, "rate", 30, "steps of all callers in a second")
	flags.DurationVar(&o.Patience, "patience", 5*time.Minute, "how long everything may take to be resolved, when all faults are healed")
	flags.DurationVar(&o.Gap, "gap", 1200*time.Millisecond, "mean time between two faults of the schedule")
	flags.DurationVar(&o.LookEvery, "look-every", 0, "how often memory, connections, sizes and latencies are looked at, for a soak; 0 is never")
	faults := flags.String("faults", "all", "names of faults, or beginnings of names, with commas between; all; none")
	sabotage := flags.String("sabotage", "", fmt.Sprintf("break the ledger of all replicas on purpose: %v", replica.Sabotages()))
	flags.IntVar(&o.MetricsBase, "metrics-base", 0, "port of the first replica's metrics on 127.0.0.1, the others' come after it; 0 serves none")
	flags.StringVar(&o.Dir, "dir", "", "folder for databases, logs and stories; default a new one, in memory where there is such a file system")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *sabotage != "" && !slices.Contains(replica.Sabotages(), replica.Sabotage(*sabotage)) {
		return o, fmt.Errorf("-sabotage: there is no %q; there are %v", *sabotage, replica.Sabotages())
	}
	if o.Duration <= 0 || o.Replicas < 1 || o.Clients < 1 || o.Rate <= 0 || o.Patience <= 0 || o.Gap <= 0 || o.LookEvery < 0 || o.MetricsBase < 0 {
		return o, errors.New("durations, replicas, clients and the rate must be more than nothing")
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	o.Faults, o.Sabotage = strings.Split(*faults, ","), replica.Sabotage(*sabotage)
	var err error
	if o.Program, err = os.Executable(); err != nil {
		return o, err
	}
	if o.Dir == "" {
		o.Dir, err = os.MkdirTemp(memory(), "onceward-chaos-")
	} else {
		err = os.MkdirAll(o.Dir, 0o711)
	}
	if err != nil {
		return o, err
	}
	// Postgres runs as another account where this is root, and must get through.
	return o, os.Chmod(o.Dir, 0o711)
}
