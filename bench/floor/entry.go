package floor

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/storage"
)

// Name is the entry's.
const Name = "floor"

// Entry runs pgbench. Where the Postgres installation has none it is left out,
// aloud: skip is told.
func Entry(widths contest.Widths, skip func(name, reason string)) contest.Entry {
	return contest.Entry{Name: Name, Promises: map[string]contest.Widths{Name: widths}, Measure: func(ctx context.Context, round contest.Round) error {
		pgbench := filepath.Join(round.Programs, "pgbench")
		_, err := os.Stat(pgbench)
		if errors.Is(err, fs.ErrNotExist) {
			skip(Name, "there is no pgbench beside postgres")
			return nil
		}
		if err != nil {
			return err
		}
		return measure(ctx, round, pgbench, widths)
	}}
}

func measure(ctx context.Context, round contest.Round, pgbench string, widths contest.Widths) error {
	database, err := ledgerdb.Create(ctx, round.Env, "bench_floor")
	if err != nil {
		return err
	}
	hash, err := storage.ArgumentsHash()
	if err != nil {
		return err
	}
	text, err := script(hex.EncodeToString(hash[:]))
	if err != nil {
		return err
	}
	file := filepath.Join(round.Dir, "floor.sql")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	var actions int64
	for _, callers := range round.Among(widths.Actions) {
		done, err := run(ctx, round, pgbench, file, database.ServeURL, callers)
		if err != nil {
			return fmt.Errorf("%s: %d callers: %w", Name, callers, err)
		}
		actions += done
	}
	if err := database.Check(ctx, actions); err != nil {
		return fmt.Errorf("%s: check after %d actions: %w", Name, actions, err)
	}
	return nil
}

// run is one load. pgbench logs each transaction, so that what came before the
// time that counts can be left out.
func run(ctx context.Context, round contest.Round, pgbench, file, url string, callers int) (done int64, err error) {
	dir, err := os.MkdirTemp(round.Dir, "pgbench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// Whole seconds only. They begin before the first connection is there, and a
	// connection takes a while.
	connecting := time.Duration(callers) * 30 * time.Millisecond
	seconds := int((connecting + round.WarmUp + round.Each).Seconds() + 1)
	cmd := exec.CommandContext(ctx, pgbench, "-n", "-M", "prepared", "-f", file, //nolint:gosec // of the Postgres installation
		"-c", strconv.Itoa(callers), "-j", strconv.Itoa(min(callers, runtime.NumCPU())), "-T", strconv.Itoa(seconds),
		"-l", "--log-prefix="+filepath.Join(dir, "log"), url)
	before, known := round.DatabaseCPU()
	output, err := cmd.CombinedOutput()
	after, _ := round.DatabaseCPU()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, output)
	}
	all, err := readLogs(dir)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, output)
	}
	from := all[0].ended.Add(-all[0].took).Add(round.WarmUp)
	if !all[len(all)-1].ended.After(from) {
		return 0, fmt.Errorf("the last of %d transactions ended before the warm-up did", len(all))
	}
	outcome := contest.Summarise(all[len(all)-1].ended.Sub(from), func(yield func(time.Duration) bool) {
		for _, t := range all {
			if t.ended.After(from) && !yield(t.took) {
				return
			}
		}
	})
	m := contest.NewMeasurement(Name, contest.Action, callers, outcome)
	if known {
		m.DatabaseCPU = float64((after - before).Microseconds()) / float64(len(all))
	}
	round.Record(m)
	return int64(len(all)), nil
}

// transaction is one line of pgbench's log.
type transaction struct {
	ended time.Time
	took  time.Duration
}

// readLogs returns all transactions in the order in which they ended.
func readLogs(dir string) ([]transaction, error) {
	files, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		return nil, err
	}
	var all []transaction
	for _, name := range files {
		if all, err = readLog(name, all); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("pgbench logged no transaction")
	}
	slices.SortFunc(all, func(a, b transaction) int { return a.ended.Compare(b.ended) })
	return all, nil
}

func readLog(name string, all []transaction) ([]transaction, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// client, number, microseconds, script, seconds and microseconds of its end
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			return nil, fmt.Errorf("pgbench logged %q", lines.Text())
		}
		var numbers [3]int64
		for i, at := range []int{2, 4, 5} {
			if numbers[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
				return nil, fmt.Errorf("pgbench logged %q: %w", lines.Text(), err)
			}
		}
		all = append(all, transaction{
			took:  time.Duration(numbers[0]) * time.Microsecond,
			ended: time.Unix(numbers[1], numbers[2]*1000),
		})
	}
	return all, lines.Err()
}
