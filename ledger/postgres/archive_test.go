package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// archive is a ledger that is some time old.
type archive struct {
	store *postgres.Store // serves
	owner *postgres.Store
	db    ledgertest.Database
	today time.Time
}

func newArchive(t *testing.T) archive {
	t.Helper()
	store, db := ledgertest.NewStore(t)
	owner, err := postgres.Open(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	return archive{store, owner, db, time.Now().UTC()}
}

// day makes the partition of some days ago.
func (a archive) day(t *testing.T, ago int) postgres.AuditDay {
	t.Helper()
	day := postgres.AuditDay(a.today.AddDate(0, 0, -ago).Format(time.DateOnly))
	a.db.Exec(t, fmt.Sprintf(`SELECT audit_events_prepare('%s', '%s')`, day, day))
	return day
}

// at gives an opening an id as if it came some days ago.
func (a archive) at(o ledger.Opening, ago int) ledger.Opening {
	id := uuid.Must(uuid.NewV7())
	ms := a.today.AddDate(0, 0, -ago).UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	o.Operation.ID = id.String()
	return o
}

// open records an operation some days ago and brings it into a state. What is
// finished frees its key when its window ends.
func (a archive) open(t *testing.T, ago int, tenant string, state ledger.State) ledger.Operation {
	t.Helper()
	o := a.at(ledgertest.Opening(tenant), ago)
	o.ExpiredKeyReuse = true
	op := ledgertest.Brought(t, a.store, ledgertest.Open(t, a.store, o), state)
	a.db.Age(t, op, time.Duration(ago)*24*time.Hour)
	return ledgertest.Get(t, a.store, op)
}

// end lets the windows of all finished operations end, and sweeps them.
func (a archive) end(t *testing.T, ops ...ledger.Operation) {
	t.Helper()
	for _, op := range ops {
		a.db.Age(t, op, 2*ledgertest.Window)
	}
	if _, swept, _, err := a.store.Sweep(t.Context(), 1000); err != nil || swept != int64(len(ops)) {
		t.Fatalf("swept %d, %v; want %d", swept, err, len(ops))
	}
}

// export reads a day.
func (a archive) export(t *testing.T, day postgres.AuditDay) ([]string, postgres.AuditDigest) {
	t.Helper()
	var lines []string
	if err := a.owner.ExportAudit(t.Context(), day, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}); err != nil {
		t.Fatalf("export of %s: %v", day, err)
	}
	return lines, digest(lines)
}

func digest(lines []string) postgres.AuditDigest {
	text := ""
	if len(lines) > 0 {
		text = strings.Join(lines, "\n") + "\n"
	}
	return postgres.AuditDigest{Rows: int64(len(lines)), SHA256: sha256.Sum256([]byte(text))}
}

// dropping is a drop of a day with an export that is there.
func dropping(day postgres.AuditDay, exported postgres.AuditDigest) postgres.AuditDrop {
	return postgres.AuditDrop{Day: day, Exported: func() (postgres.AuditDigest, error) { return exported, nil }, Patience: 20 * time.Second}
}

// refused tries a drop that must be refused for a reason.
func (a archive) refused(t *testing.T, what string, d postgres.AuditDrop, want error) {
	t.Helper()
	wantError(t, "dropping "+what, a.refusal(t, what, d), want)
}

// refusal tries a drop that must change nothing, and returns why it was
// refused.
func (a archive) refusal(t *testing.T, what string, d postgres.AuditDrop) error {
	t.Helper()
	count := `SELECT (SELECT count(*) FROM audit_events) * 1000 + (SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_events'::regclass)`
	before := a.db.Count(t, count)
	err := a.owner.DropAudit(t.Context(), d)
	if err == nil {
		t.Errorf("dropping %s was not refused", what)
	}
	if after := a.db.Count(t, count); after != before {
		t.Errorf("dropping %s changed the audit record", what)
	}
	return err
}

func (a archive) partitions(t *testing.T, day postgres.AuditDay) int {
	t.Helper()
	return a.db.Count(t, `SELECT count(*) FROM pg_class WHERE relname = 'audit_events_' || replace($1, '-', '')`, string(day))
}

func TestAuditExportHasEveryEvent(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day, other := a.day(t, 40), a.day(t, 41)
	for _, tenant := range []string{"b", "a", "a-b", "a0", "Z"} {
		for _, state := range ledger.States() {
			a.open(t, 40, tenant, state)
		}
	}
	a.open(t, 41, "a", ledger.Succeeded)
	odd := a.open(t, 40, "a", ledger.Unknown)
	detail := "line\nfeed, tab\t, \"quotes\", back\\slash, <&>, ü, 🦊, \u2028, \u0001, \\N \\. {}"
	if _, err := a.store.AddEvidence(t.Context(), ledger.Evidence{Operation: odd, Attempt: 1, Actor: "worker", Detail: detail}); err != nil {
		t.Fatal(err)
	}
	lines, _ := a.export(t, day)

	// The truth, column by column as the catalog has them.
	rows, err := a.db.Owner(t).Query(t.Context(), `SELECT *, context::text AS context FROM audit_events WHERE operation_id >= first_uuid_of($1::date) AND operation_id < first_uuid_of($1::date + 1)
		ORDER BY tenant_id COLLATE "C", operation_id, sequence`, string(day))
	if err != nil {
		t.Fatal(err)
	}
	truth, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(truth) < 50 {
		t.Fatalf("%d events, %v", len(truth), err)
	}
	if len(lines) != len(truth) {
		t.Fatalf("%d lines, want %d", len(lines), len(truth))
	}
	seen := false
	for i, line := range lines {
		var got map[string]any
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&got); err != nil || strings.ContainsAny(line, "\n") {
			t.Fatalf("line %d: %v: %s", i, err, line)
		}
		want := map[string]any{"last": i+1 == len(truth) || truth[i+1]["operation_id"] != truth[i]["operation_id"]}
		for column, value := range truth[i] {
			switch v := value.(type) {
			case [16]byte:
				want[column] = uuid.UUID(v).String()
			case []byte:
				want[column] = fmt.Sprintf("%x", v)
			case time.Time:
				want[column] = v.UTC().Format("2006-01-02T15:04:05.000000Z")
			case int32, int64:
				want[column] = json.Number(fmt.Sprint(v))
			default:
				want[column] = v
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("line %d is\n%v\nwant\n%v", i, got, want)
		}
		seen = seen || got["detail"] == ledger.StorableText(detail)
	}
	if !seen {
		t.Error("the odd text is not there as it was given")
	}
	if others, _ := a.export(t, other); len(others) != 2 {
		t.Errorf("%d events of another day, want 2", len(others))
	}
	stop := errors.New("disk full")
	wantError(t, "export that cannot be written", a.owner.ExportAudit(t.Context(), day, func([]byte) error { return stop }), stop)
	wantError(t, "export of a day without a partition", a.owner.ExportAudit(t.Context(), "2001-01-01", nil), ledger.ErrNotFound)
	wantError(t, "export of today", a.owner.ExportAudit(t.Context(), a.day(t, 0), nil), postgres.ErrAuditDayOpen)
}

func TestAuditDrop(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day, other := a.day(t, 40), a.day(t, 41)
	ops := []ledger.Operation{a.open(t, 40, acme, ledger.Succeeded), a.open(t, 40, "other", ledger.Failed)}
	kept := a.open(t, 41, acme, ledger.Unknown)
	a.end(t, ops...)
	_, exported := a.export(t, day)
	total := a.db.Count(t, `SELECT count(*) FROM audit_events`)
	if err := a.owner.DropAudit(t.Context(), dropping(day, exported)); err != nil {
		t.Fatal(err)
	}
	if n := a.db.Count(t, `SELECT count(*) FROM audit_events`); exported.Rows != 4 || n != total-4 {
		t.Errorf("%d events were exported, %d of %d are there", exported.Rows, n, total)
	}
	if a.partitions(t, day) != 0 || a.partitions(t, other) != 1 {
		t.Errorf("partitions of the day %d, of another %d; want 0 and 1", a.partitions(t, day), a.partitions(t, other))
	}
	a.refused(t, "twice", dropping(day, exported), ledger.ErrNotFound)
	if _, err := a.owner.CountAudit(t.Context(), day); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("counting what is gone: %v", err)
	}
	for _, op := range ops {
		_, err := a.store.Get(t.Context(), op.Tenant, op.ID)
		wantError(t, "what was swept", err, ledger.ErrNotFound)
	}
	if got := ledgertest.Get(t, a.store, kept); got.State != ledger.Unknown || len(got.Attempts) != 1 {
		t.Errorf("of another day: %+v", got)
	}

	// A clock that is wrong does not stop claims: there is still a place for
	// such events, and they are found.
	late := ledgertest.Open(t, a.store, a.at(ledgertest.Opening(acme), 40))
	if len(ledgertest.Moved(t, a.store, late, ledger.Confirm).Attempts) != 1 {
		t.Error("an operation of a day that was dropped has no attempts")
	}
	// What is there can be read, and never be dropped.
	if lines, digest := a.export(t, postgres.AuditDefault); len(lines) != 2 {
		t.Errorf("%d events in the default partition, want 2", len(lines))
	} else {
		a.refused(t, "the default partition", dropping(postgres.AuditDefault, digest), postgres.ErrAuditDefault)
	}
}

func TestAuditDropRefusesWhatIsNotExported(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	a.end(t, a.open(t, 40, acme, ledger.Succeeded))
	lines, right := a.export(t, day)
	edited := slices.Clone(lines)
	edited[1] = strings.Replace(edited[1], `"worker"`, `"nobody"`, 1)
	swapped := slices.Clone(lines)
	slices.Reverse(swapped)
	for what, wrong := range map[string][]string{
		"nothing exported": nil, "too few": lines[1:], "too many": append(slices.Clone(lines), lines[0]), "edited": edited, "swapped": swapped,
	} {
		if digest(wrong) == right {
			t.Fatalf("%s is the right export", what)
		}
		a.refused(t, what, dropping(day, digest(wrong)), postgres.ErrAuditDiffers)
	}
	missing := errors.New("no such file")
	d := dropping(day, right)
	d.Exported = func() (postgres.AuditDigest, error) { return right, missing }
	a.refused(t, "without an export", d, missing)

	// An event that comes while the drop is under way.
	d.Exported = func() (postgres.AuditDigest, error) {
		ledgertest.Open(t, a.store, a.at(ledgertest.Opening(acme), 40))
		return right, nil
	}
	wantError(t, "drop of a day with a late event", a.owner.DropAudit(t.Context(), d), postgres.ErrAuditDiffers)
	if a.partitions(t, day) != 1 {
		t.Error("an event that was not exported was dropped")
	}
}

// The last look is under a lock: what came after the comparison counts.
func TestAuditDropCountsUnderItsLock(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	a.end(t, a.open(t, 40, acme, ledger.Succeeded))
	_, exported := a.export(t, day)

	// A claim with a wrong clock, which is about to commit.
	claim := a.db.Owner(t)
	tx, err := claim.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, chain)
		SELECT 'late', operation_id, 1, event, from_status, to_status, attempt, epoch, args_hash, actor, chain FROM audit_events WHERE sequence = 1`); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan error, 1)
	go func() { dropped <- a.owner.DropAudit(t.Context(), dropping(day, exported)) }()
	awaitCount(t, a.db.Owner(t), 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass`,
		"audit_events_"+strings.ReplaceAll(string(day), "-", ""))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "drop after a late event", <-dropped, postgres.ErrAuditDiffers)
	if a.partitions(t, day) != 1 {
		t.Error("an event that was not exported was dropped")
	}
}

func TestAuditDropWantsTheDayOver(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for _, ago := range []int{-3, -1, 0, 1} {
		day := a.day(t, ago)
		a.refused(t, string(day), dropping(day, digest(nil)), postgres.ErrAuditDayOpen)
	}
	day := a.day(t, 2)
	if err := a.owner.DropAudit(t.Context(), dropping(day, digest(nil))); err != nil || a.partitions(t, day) != 0 {
		t.Errorf("dropping the day before yesterday: %v", err)
	}
}

func TestAuditDropWantsThePartitionOfTheDay(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.db.Exec(t, `CREATE TABLE audit_events_20200101 (LIKE audit_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
		CREATE TABLE audit_events_20200102 (LIKE audit_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
		ALTER TABLE audit_events ATTACH PARTITION audit_events_20200102 FOR VALUES FROM (first_uuid_of('2020-01-02')) TO (first_uuid_of('2020-01-04'))`)
	for _, day := range []postgres.AuditDay{"2020-01-01", "2020-01-02"} {
		if err := a.refusal(t, string(day), dropping(day, digest(nil))); err == nil || !strings.Contains(err.Error(), "not the partition of that day") {
			t.Errorf("a table that is not the partition of %s: %v", day, err)
		}
		if a.partitions(t, day) != 1 {
			t.Errorf("the table of %s is gone", day)
		}
		wantError(t, "its export", a.owner.ExportAudit(t.Context(), day, nil), ledger.ErrNotFound)
	}
}

func TestLaw08_UnresolvedOperationsKeepTheirAuditRecord(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 400)
	finished := []ledger.Operation{a.open(t, 400, acme, ledger.Succeeded), a.open(t, 400, acme, ledger.Failed)}
	var unresolved []ledger.Operation
	for _, state := range ledger.States() {
		if !state.Final() {
			unresolved = append(unresolved, a.open(t, 400, "other", state))
		}
	}
	_, exported := a.export(t, day)
	needed := func(what string) *postgres.AuditNeededError {
		t.Helper()
		d := dropping(day, exported)
		d.Exported = func() (postgres.AuditDigest, error) {
			t.Errorf("%s: the export was asked for", what)
			return exported, nil
		}
		var needed *postgres.AuditNeededError
		if err := a.refusal(t, what, d); !errors.As(err, &needed) {
			t.Fatalf("%s: %v, want *AuditNeededError", what, err)
		}
		return needed
	}
	// Finished ones count until they are swept.
	if got := needed("all"); got.Operations != int64(len(finished)+len(unresolved)) || got.Unresolved != int64(len(unresolved)) {
		t.Errorf("needed by %+v, want %d unresolved and %d finished", got, len(unresolved), len(finished))
	}
	a.end(t, finished...)
	got := needed("unresolved")
	var want []postgres.AuditNeed
	for _, op := range unresolved {
		want = append(want, postgres.AuditNeed{Tenant: op.Tenant, ID: op.ID, State: op.State})
	}
	slices.SortFunc(want, func(a, b postgres.AuditNeed) int { return strings.Compare(a.ID, b.ID) })
	if got.Operations != 4 || got.Unresolved != 4 || !slices.Equal(got.Oldest, want) {
		t.Errorf("needed by %+v, want %+v", got, want)
	}
	for _, need := range want {
		if text := got.Error(); !strings.Contains(text, need.ID+" of other ("+string(need.State)+")") {
			t.Errorf("%q does not name %+v", text, need)
		}
	}
	partitions, err := a.owner.AuditPartitions(t.Context(), false)
	if err != nil || partitions[0].Day != day || partitions[0].Operations != 4 {
		t.Errorf("partitions %+v, %v; want 4 operations that need the first", partitions[:1], err)
	}
	for _, op := range unresolved {
		if got := ledgertest.Get(t, a.store, op); got.ID != op.ID {
			t.Errorf("operation %s is not found", op.ID)
		}
	}
	// With the last of them resolved and past its window the day may go. Its
	// record has more events then: it is to be exported again.
	for _, op := range unresolved {
		switch op.State {
		case ledger.Unknown, ledger.NeedsReview, ledger.Running:
			op = ledgertest.Moved(t, a.store, op, ledger.Confirm)
		default:
			op = ledgertest.Moved(t, a.store, op, ledger.Cancel)
		}
		a.end(t, op)
	}
	a.refused(t, "with the old export", dropping(day, exported), postgres.ErrAuditDiffers)
	_, exported = a.export(t, day)
	if err := a.owner.DropAudit(t.Context(), dropping(day, exported)); err != nil {
		t.Error(err)
	}
}

func TestAuditPartitions(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day, empty := a.day(t, 40), a.day(t, 39)
	for range 3 {
		a.open(t, 40, acme, ledger.Succeeded)
	}
	ledgertest.Open(t, a.store, a.at(ledgertest.Opening(acme), 800)) // a day without a partition
	find := func(exact bool, day postgres.AuditDay) postgres.AuditPartition {
		t.Helper()
		list, err := a.owner.AuditPartitions(t.Context(), exact)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(list, func(a, b postgres.AuditPartition) int { return strings.Compare(string(a.Day), string(b.Day)) }) {
			t.Errorf("not in the order of days: %+v", list)
		}
		i := slices.IndexFunc(list, func(p postgres.AuditPartition) bool { return p.Day == day })
		if i < 0 {
			t.Fatalf("no partition of %s in %+v", day, list)
		}
		return list[i]
	}
	today := postgres.AuditDay(a.today.Format(time.DateOnly))
	for _, want := range []postgres.AuditPartition{
		{Day: day, Over: true, Rows: 6, RowsExact: true, Operations: 3},
		{Day: empty, Over: true, RowsExact: true},
		{Day: postgres.AuditDefault, Over: true, Rows: 1, RowsExact: true, Operations: 1},
		{Day: today, RowsExact: true},
	} {
		got := find(false, want.Day) // never analyzed
		if got.Bytes == 0 {
			t.Errorf("%s has no bytes", want.Day)
		}
		if got.Bytes = 0; got != want {
			t.Errorf("partition %+v, want %+v", got, want)
		}
	}
	a.db.Exec(t, `ANALYZE audit_events`)
	a.open(t, 40, acme, ledger.Unknown)
	if got := find(false, day); got.Rows != 6 || got.RowsExact || got.Operations != 4 {
		t.Errorf("estimate %+v, want 6 rows", got)
	}
	if got := find(true, day); got.Rows != 8 || !got.RowsExact {
		t.Errorf("count %+v, want 8 rows", got)
	}
}

// Whoever serves goes on while days are dropped.
func TestServingDuringAuditDrops(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	var days []postgres.AuditDay
	for ago := 40; ago < 46; ago++ {
		day := a.day(t, ago)
		days = append(days, day)
		a.db.Exec(t, fmt.Sprintf(`INSERT INTO audit_events (tenant_id, operation_id, sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, chain)
			SELECT 't' || n %% 50, (left(first_uuid_of('%s')::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, 1, 'claim', '', 'running', 1, 0, sha256('x'), 'x', ''
			FROM generate_series(1, 5000) n`, day))
	}
	stores := []*postgres.Store{a.store, a.db.Open(t)}
	var served, slowest atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	for i := range 16 {
		store := stores[i%2]
		serving.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				op, created, err := store.Open(t.Context(), ledgertest.Opening(acme))
				if err != nil || !created {
					t.Errorf("claim: created %v, %v", created, err)
					return
				}
				if _, err := store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm)); err != nil {
					t.Errorf("move: %v", err)
				}
				if got, err := store.Get(t.Context(), acme, op.ID); err != nil || got.State != ledger.Succeeded || len(got.Attempts) != 1 {
					t.Errorf("get: %+v, %v", got, err)
				}
				if list, err := store.List(t.Context(), acme, ledger.Filter{}, "", 10); err != nil || len(list) == 0 {
					t.Errorf("list: %d, %v", len(list), err)
				}
				served.Add(1)
				slowest.Store(max(slowest.Load(), int64(time.Since(began))))
			}
		})
	}
	more := func() {
		t.Helper()
		for before, deadline := served.Load(), time.Now().Add(20*time.Second); served.Load() < before+32; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing is served")
			}
		}
	}
	more()
	for _, day := range days {
		lines, exported := a.export(t, day)
		if len(lines) != 5000 {
			t.Fatalf("%d lines", len(lines))
		}
		began := time.Now()
		if err := a.owner.DropAudit(t.Context(), dropping(day, exported)); err != nil {
			t.Errorf("drop of %s: %v", day, err)
		}
		t.Logf("dropped in %s; served %d, the slowest in %s", time.Since(began).Round(time.Millisecond), served.Load(), time.Duration(slowest.Swap(0)).Round(time.Millisecond))
		more()
	}
	stop()
	serving.Wait()
	if n := a.db.Count(t, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_events'::regclass AND inhrelid::regclass::text < 'audit_events_' || to_char(now() - interval '39 days', 'YYYYMMDD')`); n != 0 {
		t.Errorf("%d partitions are left", n)
	}
	if n := a.db.Count(t, `SELECT count(*) FROM audit_events_default`); n != 0 {
		t.Errorf("%d events in the default partition", n)
	}
}

// Somebody reads the audit record for long: the drop gives up, and nobody else
// has waited for it for long.
func TestAuditDropGivesWayToReaders(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	_, exported := a.export(t, day)
	reader := a.db.Owner(t)
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SET LOCAL application_name = 'long report'; SELECT count(*) FROM audit_events`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	d := dropping(day, exported)
	d.Patience = 2 * time.Second
	dropped := make(chan error, 1)
	go func() { dropped <- a.owner.DropAudit(t.Context(), d) }()
	served := 0
	for busy := false; !busy; served++ {
		select {
		case err := <-dropped:
			busy = true
			var inUse *postgres.AuditBusyError
			// Those who are served may be seen, too.
			if !errors.As(err, &inUse) || !slices.ContainsFunc(inUse.Blockers, func(b postgres.Blocker) bool { return b.PID == int(reader.PgConn().PID()) }) {
				t.Errorf("drop under a reader: %v, want *AuditBusyError that names process %d", err, reader.PgConn().PID())
			} else if text := err.Error(); !strings.Contains(text, "(long report, user ") {
				t.Errorf("the error does not say who reads: %s", text)
			}
		default:
			inState(t, a.store, ledger.Succeeded)
		}
	}
	if served < 10 {
		t.Errorf("%d operations were served meanwhile", served)
	}
	if a.partitions(t, day) != 1 {
		t.Error("the partition is gone")
	}

	// The reader ends while the drop still tries.
	d.Patience = 20 * time.Second
	go func() { dropped <- a.owner.DropAudit(t.Context(), d) }()
	awaitCount(t, a.db.Owner(t), 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_events'::regclass AND mode = 'AccessExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil || a.partitions(t, day) != 0 {
		t.Errorf("drop after the reader: %v", err)
	}
}

// A claim of a replica whose clock is days behind comes between the locks: it is
// not the one that fails, and its events stay.
func TestAuditDropGivesWayToALateClaim(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	_, exported := a.export(t, day)
	reader := a.db.Owner(t) // keeps the drop between its locks
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE ONLY audit_events IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan error, 1)
	go func() { dropped <- a.owner.DropAudit(t.Context(), dropping(day, exported)) }()
	awaitCount(t, a.db.Owner(t), 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_events'::regclass AND mode = 'AccessExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	late := ledgertest.Open(t, a.store, a.at(ledgertest.Opening(acme), 40))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err == nil {
		// It was done before the claim, whose events are elsewhere then.
		t.Log("the drop was first")
	} else {
		wantError(t, "drop after a late claim", err, postgres.ErrAuditDiffers)
	}
	if got := ledgertest.Get(t, a.store, late); len(got.Attempts) != 1 {
		t.Errorf("the late claim has %d attempts, want 1", len(got.Attempts))
	}
}

// Two who drop the same day: one does, the other learns that it is gone.
func TestAuditDropTwiceAtOnce(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	_, exported := a.export(t, day)
	var both sync.WaitGroup
	both.Add(2)
	d := dropping(day, exported)
	results := make(chan error, 2)
	d.Exported = func() (postgres.AuditDigest, error) {
		both.Done()
		both.Wait() // until the other is here, too
		return exported, nil
	}
	for range 2 {
		go func() { results <- a.owner.DropAudit(t.Context(), d) }()
	}
	one, two := <-results, <-results
	if (one == nil) == (two == nil) {
		t.Errorf("two drops: %v and %v", one, two)
	}
	wantError(t, "the second", errors.Join(one, two), ledger.ErrNotFound)
}

func TestLaw11_ServingRoleCannotDropTheAuditRecord(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	day := a.day(t, 40)
	a.end(t, a.open(t, 40, acme, ledger.Succeeded))
	_, exported := a.export(t, day)
	denied := func(what string, err error) {
		t.Helper()
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
			t.Errorf("%s: error %v, want SQLSTATE 42501", what, err)
		}
	}
	denied("drop", a.store.DropAudit(t.Context(), dropping(day, exported)))
	denied("export", a.store.ExportAudit(t.Context(), day, nil))
	conn := a.db.Serve(t)
	for _, sql := range []string{
		`ALTER TABLE audit_events DETACH PARTITION old`, `ALTER TABLE audit_events DETACH PARTITION old CONCURRENTLY`,
		`DROP TABLE old`, `TRUNCATE old`, `DELETE FROM old`, `UPDATE old SET actor = 'x'`, `INSERT INTO old SELECT * FROM old`,
		`DO $$ BEGIN LOCK TABLE old IN SHARE ROW EXCLUSIVE MODE; END $$`, `ALTER TABLE old RENAME TO gone`,
		`ALTER TABLE audit_events DETACH PARTITION audit_events_default`, `DROP TABLE audit_events_default`,
	} {
		sql = strings.ReplaceAll(sql, "old", "audit_events_"+strings.ReplaceAll(string(day), "-", ""))
		_, err := conn.Exec(t.Context(), sql)
		denied(sql, err)
	}
	if lines, _ := a.export(t, day); len(lines) != 2 {
		t.Errorf("%d events are there, want 2", len(lines))
	}
}
