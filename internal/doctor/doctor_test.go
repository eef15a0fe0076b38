package doctor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// sound is a database that nothing is wrong with.
func sound() facts {
	return facts{
		VersionNum: 150018, Version: "15.18", SynchronousCommit: "on", StandbyNames: "ANY 1 (a, b)", Walsenders: 2,
		Fsync: true, FullPageWrites: true, Checksums: true, Autovacuum: true, Encoding: "UTF8", Isolation: "read committed",
		MaxConnections: 100, ReservedConnections: 3, SharedBuffers: 4 << 30, MaxWALSize: 8 << 30, ArchiveMode: "on",
		XIDAge: 1000, Serves: true, Migrated: true, SeesVersion: true, SeesLedger: true,
	}
}

func describe(findings []Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.Level.String()+" "+f.Check+": "+f.Seen+" -> "+f.Do)
	}
	return strings.Join(lines, "\n")
}

func at(findings []Finding, check string) (Finding, bool) {
	for _, f := range findings {
		if f.Check == check && f.Level != Good {
			return f, true
		}
	}
	return Finding{Level: Good}, false
}

func TestASoundDatabaseHasNothingToMend(t *testing.T) {
	d := Database{Replicas: 3, Connections: 15}
	for _, f := range d.judge(sound()) {
		if f.Level != Good || f.Do != "" {
			t.Errorf("%s %s: %s -> %s", f.Level, f.Check, f.Seen, f.Do)
		}
	}
}

func TestJudge(t *testing.T) {
	hours := 7200.0
	for _, tt := range []struct {
		name   string
		change func(*facts)
		check  string
		want   Level
	}{
		{"old", func(f *facts) { f.VersionNum = 130011 }, "postgres", Fail},
		{"standby", func(f *facts) { f.Standby = true }, "primary", Fail},
		{"read only", func(f *facts) { f.ReadOnly = true }, "primary", Fail},
		{"encoding", func(f *facts) { f.Encoding = "SQL_ASCII" }, "encoding", Fail},
		{"isolation", func(f *facts) { f.Isolation = "serializable" }, "isolation", Fail},
		{"synchronous_commit off", func(f *facts) { f.SynchronousCommit = "off" }, "synchronous_commit", Fail},
		{"local with standbys", func(f *facts) { f.SynchronousCommit = "local" }, "synchronous_commit", Fail},
		{"local without", func(f *facts) { f.SynchronousCommit, f.StandbyNames = "local", "" }, "synchronous_commit", Good},
		{"fsync off", func(f *facts) { f.Fsync = false }, "fsync", Fail},
		{"full_page_writes off", func(f *facts) { f.FullPageWrites = false }, "full_page_writes", Fail},
		{"no checksums", func(f *facts) { f.Checksums = false }, "data_checksums", Warn},
		{"no standby", func(f *facts) { f.StandbyNames = "" }, "standby", Warn},
		{"standby away", func(f *facts) { f.Walsenders = 0 }, "standby", Fail},
		{"no archive", func(f *facts) { f.ArchiveMode = "off" }, "backup", Warn},
		{"too few connections", func(f *facts) { f.MaxConnections = 40 }, "connections", Fail},
		{"few connections", func(f *facts) { f.MaxConnections = 50 }, "connections", Warn},
		{"autovacuum off", func(f *facts) { f.Autovacuum = false }, "autovacuum", Fail},
		{"wraparound", func(f *facts) { f.XIDAge = 2_000_000_000 }, "transaction ids", Fail},
		{"long transaction", func(f *facts) { f.OldestTransaction = &hours }, "transactions", Warn},
		{"statement timeout", func(f *facts) { f.StatementTimeout = 100 }, "statement_timeout", Warn},
		{"small", func(f *facts) { f.SharedBuffers = 128 << 20 }, "memory", Warn},
		{"superuser", func(f *facts) { f.Superuser = true }, "login", Warn},
		{"owner", func(f *facts) { f.MayChangeRecord = true }, "login", Warn},
		{"no member", func(f *facts) { f.Serves = false }, "login", Fail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sound()
			tt.change(&f)
			findings := Database{Replicas: 3, Connections: 15}.judge(f)
			got, found := at(findings, tt.check)
			if got.Level != tt.want || found && got.Do == "" {
				t.Errorf("%s is %s, want %s, with something to do; all:\n%s", tt.check, got.Level, tt.want, describe(findings))
			}
		})
	}
}

func TestJudgeSchema(t *testing.T) {
	d := Database{Schema: 7}
	for _, tt := range []struct {
		version uint
		dirty   bool
		want    Level
	}{{7, false, Good}, {6, false, Fail}, {8, false, Warn}, {7, true, Fail}} {
		if got := Worst(d.judgeSchema(sound(), tt.version, tt.dirty)); got != tt.want {
			t.Errorf("version %d, dirty %t: %s, want %s", tt.version, tt.dirty, got, tt.want)
		}
	}
}

func TestJudgeClock(t *testing.T) {
	for _, tt := range []struct {
		offset, uncertainty time.Duration
		want                Level
	}{
		{300 * time.Millisecond, time.Millisecond, Good},
		{-2 * time.Second, time.Millisecond, Warn},
		{2 * time.Second, 3 * time.Second, Good}, // nothing is certain
		{-time.Hour, time.Second, Fail},
	} {
		if got := judgeClock(tt.offset, tt.uncertainty); got.Level != tt.want {
			t.Errorf("%s give or take %s: %s, want %s", tt.offset, tt.uncertainty, got.Level, tt.want)
		}
	}
}

func TestContracts(t *testing.T) {
	spec := func(change func(*actions.Spec)) actions.Spec {
		s := actions.Spec{
			Type: "payments.refund.create", Version: "1",
			Contract: actions.Contract{Provider: "p", Version: "1", Keys: actions.KeyRules{Honoured: true, Window: 24 * time.Hour, Margin: time.Hour}},
		}
		change(&s)
		return s.WithDefaults()
	}
	for _, tt := range []struct {
		name   string
		change func(*actions.Spec)
		want   Level
		says   string
	}{
		{"sound", func(*actions.Spec) {}, Good, "the same key (23h0m0s)"},
		{"window, reuse", func(s *actions.Spec) { s.Window, s.ExpiredKey = time.Hour, actions.Reuse }, Fail, "executed again"},
		{"window, reject", func(s *actions.Spec) { s.Window = time.Hour }, Warn, "does not get its receipt"},
		{"window shorter than the provider", func(s *actions.Spec) { s.Window, s.Contract.LateLanding = 48*time.Hour, 72*time.Hour }, Fail, "may still act"},
		{"key window shorter than a crash", func(s *actions.Spec) { s.Contract.Keys.Window, s.Contract.Keys.Margin = 90*time.Second, 0 }, Warn, "after a crash"},
		{"key window shorter than the attempts", func(s *actions.Spec) { s.Contract.Keys.Window, s.Contract.Keys.Margin = 3*time.Minute, 0 }, Warn, "goes to a person"},
		{"key window shorter, but a look-up", func(s *actions.Spec) {
			s.Contract.Keys.Window, s.Contract.Keys.Margin = 3*time.Minute, 0
			s.Contract.Lookup.Authoritative = true
		}, Good, "or a look-up"},
		{"nothing", func(s *actions.Spec) { s.Contract.Keys = actions.KeyRules{} }, Warn, "every doubt goes to a person"},
		{"look-up only", func(s *actions.Spec) {
			s.Contract.Keys, s.Contract.Lookup = actions.KeyRules{}, actions.LookupRules{Authoritative: true, SettleTime: time.Minute}
		}, Good, "1m0s after the attempt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findings := Contracts([]actions.Spec{spec(tt.change)}, Retries{LeaseGrace: 15 * time.Second, Callers: 24 * time.Hour})
			if got := Worst(findings); got != tt.want || !strings.Contains(describe(findings), tt.says) {
				t.Errorf("%s, want %s with %q:\n%s", got, tt.want, tt.says, describe(findings))
			}
		})
	}
}

// TestLook asks a real ledger, as the login that serves and as its owner.
func TestLook(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	newest, err := migrations.Newest()
	if err != nil {
		t.Fatal(err)
	}
	tenant := db.Tenant(t, "acme")
	d := Database{Schema: newest, Replicas: 1, Connections: 15, Fingerprint: new([32]byte), PolicyTenants: []string{"nobody"}}
	look := func(conn *pgx.Conn) []Finding {
		t.Helper()
		findings, err := d.Look(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		return findings
	}

	findings := look(db.Serve(t))
	if f, bad := at(findings, "login"); bad {
		t.Errorf("the serving login is fine: %+v", f)
	}
	if f, _ := at(findings, "fsync"); f.Level != Fail { // the tests' server has it off
		t.Errorf("fsync is off:\n%s", describe(findings))
	}
	if f, _ := at(findings, "policies"); f.Level != Warn || !strings.Contains(describe(findings), tenant) || !strings.Contains(describe(findings), "nobody") {
		t.Errorf("policies and tenants do not match:\n%s", describe(findings))
	}
	if f, bad := at(findings, "reconciler"); bad {
		t.Errorf("nothing is overdue: %+v", f)
	}
	if f, _ := at(look(db.Owner(t)), "login"); f.Level != Warn {
		t.Errorf("the owner may change the record: %+v", f)
	}

	if f, found := at(findings, "recovery"); found {
		t.Errorf("nothing was restored: %+v", f)
	}
	db.Exec(t, `INSERT INTO restores (id, lost_from, lost_until, begun_at, begun_by) VALUES (gen_random_uuid(), now() - interval '1 hour', now(), '2026-11-30T09:00:00Z', 'test')`)
	if f, _ := at(look(db.Serve(t)), "recovery"); f.Level != Warn || !strings.Contains(f.Seen, "since 2026-11-30T09:00:00Z") {
		t.Errorf("a recovery is in force: %+v", f)
	}
	db.Exec(t, `ALTER TABLE restores RENAME TO gone`)
	if f, found := at(look(db.Serve(t)), "recovery"); found {
		t.Errorf("a schema without restores: %+v", f)
	}
	db.Exec(t, `ALTER TABLE gone RENAME TO restores; UPDATE restores SET ended_at = now(), ended_by = 'test'`)
	if f, found := at(look(db.Serve(t)), "recovery"); found {
		t.Errorf("it has ended: %+v", f)
	}

	// A worker that died, with nobody to notice.
	op := ledgertest.InState(t, store, tenant, ledger.Running)
	db.Age(t, op, time.Hour)
	db.Exec(t, `UPDATE leases SET expires_at = clock_timestamp() - interval '10 minutes'`)
	db.Exec(t, `UPDATE onceward_migrations SET version = version - 1`)
	findings = look(db.Owner(t))
	if f, _ := at(findings, "reconciler"); f.Level != Fail {
		t.Errorf("a lease is overdue:\n%s", describe(findings))
	}
	if f, _ := at(findings, "schema"); f.Level != Fail {
		t.Errorf("the schema is old:\n%s", describe(findings))
	}
}

func TestLookAtAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.NewDatabase(t, pgtest.Template{Name: "empty"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	findings, err := Database{Schema: 7, Replicas: 1, Connections: 15}.Look(t.Context(), conn)
	if f, _ := at(findings, "schema"); err != nil || f.Level != Fail || !strings.Contains(f.Do, "onceward migrate") {
		t.Errorf("there is no schema: %v\n%s", err, describe(findings))
	}
}
