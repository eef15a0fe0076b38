package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What the database must be. The versions are those that the tests run on and
// below; the schema uses nothing newer.
const (
	oldestPostgres = 140000
	// maxXIDAge is where Postgres itself begins to warn; it stops at 2^31.
	maxXIDAge = 1_500_000_000
	// longTransaction keeps dead rows of every table from being cleaned up.
	longTransaction = time.Hour
	// smallBuffers and smallWAL are Postgres's defaults, for which docs/performance.md
	// has the price.
	smallBuffers = 128 << 20
	smallWAL     = 1 << 30
	// shortStatements is less than a shared transaction may take on a busy database.
	shortStatements = 5000 // ms
)

// judge says what is wrong with a database.
func (d Database) judge(f facts) []Finding {
	return slices.Concat(d.judgeServer(f), judgeDurability(f), d.judgeRoom(f), judgeLogin(f))
}

func (d Database) judgeServer(f facts) []Finding {
	findings := []Finding{good("postgres", "version %s", f.Version)}
	if f.VersionNum < oldestPostgres {
		findings[0] = fail("postgres", "version "+f.Version, "use Postgres 14 or later")
	}
	if f.Standby {
		findings = append(findings, fail("primary", "this is a read-only standby", "point --database-url at the primary: several hosts and target_session_attrs=read-write find it"))
	} else if f.ReadOnly {
		findings = append(findings, fail("primary", "default_transaction_read_only is on", "switch it off for this login and database"))
	}
	if f.Encoding != "UTF8" {
		findings = append(findings, fail("encoding", f.Encoding, "make the database with ENCODING 'UTF8'"))
	}
	if f.Isolation != "read committed" {
		findings = append(findings, fail("isolation", f.Isolation, "leave default_transaction_isolation at read committed for this login: the ledger's statements are guarded for it, and would fail under contention"))
	}
	return findings
}

// judgeDurability holds the database to what L2 stands on: what was acknowledged
// outlives a crash.
func judgeDurability(f facts) []Finding {
	var findings []Finding
	switch f.SynchronousCommit {
	case "off":
		findings = append(findings, fail("synchronous_commit", "off: an acknowledged claim can be lost, and would be sent again", "ALTER ROLE … SET synchronous_commit = on; serve refuses to start"))
	case "local":
		findings = append(findings, judgeLocalCommit(f))
	default:
		findings = append(findings, good("synchronous_commit", "%s", f.SynchronousCommit))
	}
	for _, s := range []struct {
		name   string
		on     bool
		danger string
	}{
		{"fsync", f.Fsync, "a power cut can lose what was acknowledged, and corrupt the rest"},
		{"full_page_writes", f.FullPageWrites, "a power cut can corrupt pages that were half written"},
	} {
		if s.on {
			findings = append(findings, good(s.name, "on"))
			continue
		}
		findings = append(findings, fail(s.name, "off: "+s.danger, "set "+s.name+" = on in postgresql.conf and restart"))
	}
	if !f.Checksums {
		findings = append(findings, warn("data_checksums", "off: a rotten page is read as if it were sound", "stop the server and run pg_checksums --enable"))
	}
	findings = append(findings, judgeStandby(f))
	if f.ArchiveMode == "off" {
		findings = append(findings, warn("backup", "archive_mode is off: a restore goes back to the last whole backup, and forgets what was sent since", "archive the WAL (docs/backup-restore.md), unless your provider backs up in another way"))
	} else {
		findings = append(findings, good("backup", "archive_mode is %s", f.ArchiveMode))
	}
	return findings
}

func judgeLocalCommit(f facts) Finding {
	if f.StandbyNames == "" {
		return good("synchronous_commit", "local")
	}
	return fail("synchronous_commit", "local, although there are synchronous standbys: a failover loses what was acknowledged", "set it to on for this login")
}

func judgeStandby(f facts) Finding {
	switch {
	case f.StandbyNames == "":
		return warn("standby", "no synchronous standby: a failover to another machine can lose acknowledged claims, and the ledger is then a restored one", "name one in synchronous_standby_names, or follow docs/backup-restore.md after every failover")
	case f.Walsenders == 0:
		return fail("standby", "synchronous_standby_names is set and no standby is connected: every write waits for ever", "start the standby, or take it out of synchronous_standby_names")
	default:
		return good("standby", "synchronous_standby_names is %q", f.StandbyNames)
	}
}

// judgeRoom looks at what runs out.
func (d Database) judgeRoom(f facts) []Finding {
	var findings []Finding
	need, room := d.Replicas*d.Connections, f.MaxConnections-f.ReservedConnections
	seen := fmt.Sprintf("%d of %d are for %s of up to %d; %d are used now", need, room, plural(d.Replicas, "replica"), d.Connections, f.Connections)
	switch {
	case need > room:
		findings = append(findings, fail("connections", seen, "raise max_connections, use fewer replicas, a smaller pool_max_conns in the URL, or a pooler"))
	case need > room*8/10:
		findings = append(findings, warn("connections", seen, "leave room for migrations, backups and people: raise max_connections, or put a pooler between"))
	default:
		findings = append(findings, good("connections", "%s", seen))
	}
	if !f.Autovacuum {
		findings = append(findings, fail("autovacuum", "off: tables and indexes grow without bound, and transaction ids run out", "set autovacuum = on and track_counts = on"))
	}
	if f.XIDAge > maxXIDAge {
		findings = append(findings, fail("transaction ids", fmt.Sprintf("%d are used of 2^31: Postgres stops writing when they run out", f.XIDAge), "VACUUM FREEZE now, and find what keeps autovacuum from it"))
	}
	if f.OldestTransaction != nil && seconds(*f.OldestTransaction) > longTransaction {
		findings = append(findings, warn("transactions", fmt.Sprintf("one is open for %s: nothing that died since is cleaned up", seconds(*f.OldestTransaction)), "find it in pg_stat_activity by xact_start, and end it"))
	}
	if f.StatementTimeout > 0 && f.StatementTimeout < shortStatements {
		findings = append(findings, warn("statement_timeout", fmt.Sprintf("%d ms: a shared transaction that is slow for once becomes a doubt", f.StatementTimeout), "leave it at 0 for this login; the service has its own times"))
	}
	if f.SharedBuffers <= smallBuffers || f.MaxWALSize <= smallWAL {
		findings = append(findings, warn("memory", fmt.Sprintf("shared_buffers %d MB, max_wal_size %d MB: Postgres's defaults are for small ledgers", f.SharedBuffers>>20, f.MaxWALSize>>20), "docs/operations.md says what pays (Settings that pay)"))
	}
	return findings
}

func judgeLogin(f facts) []Finding {
	switch {
	case f.Superuser:
		return []Finding{warn("login", "a superuser: it may change the audit record, and everything else", "serve with a login that is a member of onceward_serve and owns nothing")}
	case f.MayChangeRecord:
		return []Finding{warn("login", "it may change the audit record (it owns the schema?)", "serve with a login that is a member of onceward_serve and owns nothing")}
	case !f.Serves && f.Migrated:
		return []Finding{fail("login", "it is no member of onceward_serve", "GRANT onceward_serve TO the login that serves")}
	case f.Serves:
		return []Finding{good("login", "a member of onceward_serve; it cannot change the audit record")}
	}
	return nil
}

// judgeSchema says whether the schema is this program's.
func (d Database) judgeSchema(f facts, version uint, dirty bool) []Finding {
	const check = "schema"
	switch {
	case f.Standby:
		return nil
	case !f.Migrated:
		return []Finding{fail(check, "there is none", "onceward migrate, with the URL of the role that owns it")}
	case dirty:
		return []Finding{fail(check, fmt.Sprintf("version %d stopped half way", version), "restore the backup made before it, or finish it by hand and set dirty to false in onceward_migrations")}
	case version < d.Schema:
		return []Finding{fail(check, fmt.Sprintf("version %d; this program needs %d", version, d.Schema), "onceward migrate, before the new program serves")}
	case version > d.Schema:
		return []Finding{warn(check, fmt.Sprintf("version %d; this program knows %d", version, d.Schema), "finish the upgrade: start replicas of the newer program")}
	default:
		return []Finding{good(check, "version %d", version)}
	}
}

// What somebody should have done by now.
const (
	idleReconciler = time.Minute
	oldReview      = 24 * time.Hour
)

// judgeHoldings looks for what waits in vain, and for what does not fit this
// installation.
func (d Database) judgeHoldings(h holdings) []Finding {
	var findings []Finding
	switch {
	case d.Fingerprint == nil:
	case h.Fingerprint == nil:
		findings = append(findings, good("secrets", "readable; the ledger is new and remembers no others"))
	case string(h.Fingerprint) != string(d.Fingerprint[:]):
		findings = append(findings, fail("secrets", "the ledger belongs to another provider key secret: with this one a provider could not tell a second attempt", "give the folder that this ledger was first served with"))
	default:
		findings = append(findings, good("secrets", "readable, and those of this ledger"))
	}
	if h.OldestLeaseOverdue != nil && seconds(*h.OldestLeaseOverdue) > idleReconciler {
		findings = append(findings, fail("reconciler", fmt.Sprintf("a lease ran out %s ago and nobody took it up", seconds(*h.OldestLeaseOverdue)), "run at least one replica with --roles=reconciler"))
	}
	if h.OldestReview != nil && seconds(*h.OldestReview) > oldReview {
		findings = append(findings, warn("reviews", fmt.Sprintf("one waits for a person for %s", seconds(*h.OldestReview)), "onceward reviews, for each tenant"))
	}
	if h.KillSwitches > 0 {
		findings = append(findings, warn("kill switches", fmt.Sprintf("%s set", plural(h.KillSwitches, "is", "are")), "onceward stops shows them; onceward resume clears one"))
	}
	if !h.Tomorrow {
		findings = append(findings, warn("audit record", "there is no partition for tomorrow: rows go to the default one, which cannot be dropped by day", "run at least one replica with --roles=reconciler, which prepares them"))
	}
	return append(findings, judgeTenants(h.Tenants, d.PolicyTenants)...)
}

// judgeRecovery tells of a recovery that nobody has ended: it does not end by itself.
func judgeRecovery(r recovery) []Finding {
	if r.InForce == 0 || r.Since == nil {
		return nil
	}
	return []Finding{warn("recovery", fmt.Sprintf("the ledger was restored, and since %s new operations are recorded in doubt and not sent", r.Since.UTC().Format(time.RFC3339)),
		"onceward restore status shows how far it is; docs/backup-restore.md says when to end it")}
}

// judgeTenants compares those in the ledger with those that have a policy.
func judgeTenants(known, governed []string) []Finding {
	if governed == nil {
		return nil
	}
	missing := func(from, in []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(t string) bool { return slices.Contains(in, t) })
	}
	var findings []Finding
	if without := missing(known, governed); len(without) > 0 {
		findings = append(findings, warn("policies", "tenants without a policy may do nothing: "+some(without), "write them one (docs/policies.md), or leave it so on purpose"))
	}
	if unknown := missing(governed, known); len(unknown) > 0 {
		findings = append(findings, warn("policies", "policies of tenants that the ledger does not know: "+some(unknown), "onceward tenants create, or mend the name"))
	}
	if findings == nil {
		findings = []Finding{good("policies", "every one of %s has one", plural(len(known), "tenant"))}
	}
	return findings
}

// What clocks may differ by: identity tokens are given as much, and leases rest on
// the database's clock alone.
const (
	clockWarn = time.Second
	clockFail = 30 * time.Second
)

// judgeClock takes by how much the database's clock is ahead, give or take.
func judgeClock(offset, uncertainty time.Duration) Finding {
	const check = "clock"
	off := max(offset.Abs()-uncertainty, 0) // that much for certain
	seen := fmt.Sprintf("the database's is %s of this machine's, give or take %s", ahead(offset), uncertainty.Round(time.Microsecond))
	const do = "run an NTP client on both machines"
	switch {
	case off > clockFail:
		return fail(check, seen, do)
	case off > clockWarn:
		return warn(check, seen, do)
	default:
		return good(check, "%s", seen)
	}
}

func ahead(d time.Duration) string {
	if d < 0 {
		return d.Abs().Round(time.Microsecond).String() + " behind"
	}
	return d.Round(time.Microsecond).String() + " ahead"
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// some is a list that fits a line.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// plural counts: "1 replica", "2 replicas", or with a plural of its own.
func plural(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	default:
		return fmt.Sprintf("%d %ss", n, one)
	}
}
