package arch

// Patterns name packages of this module by their path inside it ("ledger"), the
// standard library's and other modules' by their import path ("net/http").
// "x/..." is x and everything below it. Two words stand for many.
const (
	stdlib = "<stdlib>" // the standard library
	others = "<others>" // other people's modules
)

// mustExist are the packages that the rules are about. Rules about a package
// that is gone or renamed would pass for ever.
var mustExist = []string{
	"actions",
	"actions/actionstest",
	"actions/declared",
	"actions/definition",
	"actions/expr",
	"actions/grpcaction",
	"actions/httpaction",
	"actions/smtpaction",
	"actions/sqlaction",
	"actions/webhook",
	"catalog",
	"cmd/onceward",
	"dispatch",
	"fakeprovider",
	"guard",
	"guard/guardgrpc",
	"guard/guardsql",
	"inbox",
	"internal/admin",
	"internal/app",
	"internal/apptest",
	"internal/auditchain",
	"internal/crashpoint",
	"internal/demo",
	"internal/doctor",
	"internal/forecast",
	"internal/hostile",
	"internal/identity",
	"internal/jws",
	"internal/panics",
	"internal/model",
	"internal/mutants",
	"internal/pgtest",
	"internal/pgurl",
	"internal/privatepg",
	"internal/policies",
	"internal/providers",
	"internal/strictyaml",
	"internal/telemetry",
	"internal/upgrade",
	"internal/yamlfiles",
	"internal/secrets",
	"internal/signing",
	"ledger",
	"ledger/ledgertest",
	"ledger/optrace",
	"ledger/postgres",
	"migrations",
	"policy",
	"policy/cases",
	"policy/policyfile",
	"proof",
	"proto/onceward/v1",
	"reconciler",
	"server",
	"simulator",
}

// testSupport are the packages that only tests import.
var testSupport = []string{
	"actions/actionstest/...",
	"internal/apptest/...",
	"internal/crashpoint/...",
	"internal/model/...",
	"internal/mutants/...",
	"internal/pgtest/...",
	"ledger/ledgertest/...",
}

// inputOutput is what a package without I/O does not import.
var inputOutput = []string{
	"database/sql/...",
	"io/fs",
	"log/...",
	"net",
	"net/http/...",
	"net/rpc/...",
	"net/smtp",
	"os/...",
	"syscall/...",
	"github.com/jackc/...",
	"google.golang.org/grpc/...",
}

// arrows says what packages may import. Never also counts for what is reached
// through other packages of this module; may is about direct imports, and nil
// leaves them open.
var arrows = []struct {
	from  []string
	but   []string // packages of from that the rule leaves out
	may   []string
	never []string
	why   string
}{
	{
		from: []string{"actions"},
		may: []string{
			stdlib,
			"github.com/go-json-experiment/json/...",
			"github.com/santhosh-tekuri/jsonschema/...",
			"golang.org/x/text/...",
		},
		never: inputOutput,
		why:   "everybody imports it, adapter authors too: it says what may be done and does nothing",
	},
	{
		from: []string{"actions/..."},
		but:  []string{"actions/actionstest"}, // it runs an adapter under all of them
		never: []string{
			"ledger/...", "server/...", "reconciler/...", "dispatch/...", "policy/...", "migrations/...",
		},
		why: "an adapter performs; whether and when, and what is remembered, is decided elsewhere",
	},
	{
		from:  []string{"actions/..."},
		but:   []string{"actions/actionstest", "actions/grpcaction"},
		never: []string{"google.golang.org/grpc/...", "proto/..."},
		why:   "adapters in other processes are reached by one package alone",
	},
	{
		from:  []string{"actions/expr"},
		may:   []string{stdlib, "cel.dev/cel-go/..."},
		never: inputOutput,
		why:   "an expression that could read anything but its variables would not be the same twice",
	},
	{
		from: []string{"actions/definition"},
		may:  []string{stdlib, others, "actions", "internal/strictyaml", "internal/yamlfiles"},
		never: []string{
			"net/http/...", "github.com/jackc/...", "google.golang.org/grpc/...",
		},
		why: "it is a language; what is done with it is known to those who build adapters",
	},
	{
		from: []string{"internal/pgurl"},
		may:  []string{stdlib, "github.com/jackc/pgx/v5/..."},
		why:  "it keeps passwords out of errors for all who open a database, and knows none of them",
	},
	{
		from: []string{"internal/hostile", "internal/upgrade"},
		may:  []string{},
		why:  "they are tests alone, and have no code that others could come to need",
	},
	{
		from: []string{"actions/webhook"},
		may:  []string{stdlib, "actions"},
		why:  "who trusts a signature wants to read all of the code that checks it",
	},
	{
		from: []string{"catalog"},
		may:  []string{stdlib, "actions/definition"},
		why:  "it is data",
	},
	{
		from:  []string{"simulator"},
		may:   []string{stdlib, others, "fakeprovider", "actions/definition", "actions/expr"},
		never: []string{"actions/declared", "actions/httpaction"},
		why:   "a witness that shared code with the adapter would share its mistakes",
	},
	{
		from: []string{"inbox/..."},
		may:  []string{stdlib, others, "inbox/...", "actions", "internal/panics", "ledger"},
		never: []string{
			"server/...", "reconciler/...", "dispatch/...", "ledger/postgres/...", "google.golang.org/grpc/...",
		},
		why: "it verifies and stores; what an event means for an operation is decided by those who repair",
	},
	{
		from: []string{"internal/providers"},
		may:  []string{stdlib, others, "actions/...", "actions", "internal/yamlfiles"},
		why:  "it builds adapters from files; it knows no request and no operation",
	},
	{
		from: []string{"internal/policies"},
		may:  []string{stdlib, "actions", "policy", "internal/strictyaml", "internal/yamlfiles"},
		why:  "it keeps the files of policies in force; what they say is decided in policy",
	},
	{
		from:  []string{"internal/strictyaml"},
		may:   []string{stdlib, others},
		never: inputOutput,
		why:   "it reads texts, whatever they are for; policy, which does no I/O, stands on it",
	},
	{
		from: []string{"internal/yamlfiles"},
		may:  []string{stdlib, "internal/strictyaml"},
		why:  "it finds files and sees them change, whatever is in them",
	},
	{
		from:  []string{"internal/auditchain"},
		may:   []string{stdlib},
		never: inputOutput,
		why:   "who verifies the record must not have to trust what wrote it",
	},
	{
		from:  []string{"ledger"},
		may:   []string{stdlib, "github.com/google/uuid"},
		never: inputOutput,
		why:   "the state machine is a table and a pure function; stores and servers test themselves against it",
	},
	{
		from: []string{"ledger/..."},
		never: []string{
			"actions/...", "server/...", "reconciler/...", "dispatch/...", "policy/...", "proto/...",
			"google.golang.org/grpc/...",
		},
		why: "the ledger remembers what it is told; it knows neither providers nor callers",
	},
	{
		from:  []string{"ledger/optrace"},
		may:   []string{stdlib, "ledger", "go.opentelemetry.io/otel/..."},
		never: []string{"go.opentelemetry.io/otel/sdk/...", "github.com/prometheus/..."},
		why:   "it joins spans; where they go is not known to those who make them",
	},
	{
		from: []string{"policy/..."},
		but:  []string{"policy/policyfile/internal/schemagen"}, // a tool that writes files
		never: append([]string{
			"ledger/postgres/...", "server/...", "reconciler/...", "dispatch/...", "proto/...",
		}, inputOutput...),
		why: "a decision that reads a clock, a file or a database cannot be replayed or previewed",
	},
	{
		from: []string{"dispatch/..."},
		may:  []string{stdlib, others, "dispatch/...", "actions", "internal/panics", "ledger", "ledger/optrace"},
		never: []string{
			"net/http/...", "github.com/jackc/...", "google.golang.org/grpc/...",
		},
		why: "the one caller of Adapter.Execute knows adapters and outcomes, not callers, stores or wires",
	},
	{
		from: []string{"reconciler/..."},
		may:  []string{stdlib, others, "reconciler/...", "actions", "dispatch", "internal/panics", "ledger", "ledger/optrace", "policy"},
		never: []string{
			"server/...", "github.com/jackc/...", "google.golang.org/grpc/...",
		},
		why: "repairing must work without anybody asking, and through the same guarded store",
	},
	{
		from: []string{"server/..."},
		may:  []string{stdlib, others, "server/...", "proto/...", "actions", "dispatch", "ledger", "ledger/optrace", "policy", "internal/..."},
		never: []string{
			"reconciler/...", "ledger/postgres/...", "github.com/jackc/...", "internal/app/...", "internal/privatepg/...",
		},
		why: "the server decides over small interfaces that it declares; internal/app wires stores and adapters",
	},
	{
		from: []string{"internal/model"},
		may:  []string{stdlib, "actions", "dispatch", "ledger", "reconciler"},
		never: []string{
			"ledger/postgres/...", "server/...", "github.com/jackc/...", "net/http/...", "google.golang.org/grpc/...",
		},
		why: "it walks through what is decided, with everything that is I/O in its own hands: what it cannot see it cannot check",
	},
	{
		from: []string{"internal/mutants"},
		may:  []string{stdlib},
		why:  "it breaks what it reads, and must not depend on what it breaks",
	},
	{
		from:  []string{"internal/forecast"},
		may:   []string{stdlib, "ledger"},
		never: inputOutput,
		why:   "a prediction that reads anything but the observations would not come out the same twice",
	},
	{
		from: []string{"internal/apikey"},
		may:  []string{stdlib},
		why:  "who trusts a key wants to read all of the code that checks it",
	},
	{
		from: []string{"internal/identity"},
		may:  []string{stdlib, others, "internal/apikey", "server", "policy", "ledger", "actions/definition", "internal/strictyaml"},
		never: []string{
			"ledger/postgres/...", "github.com/jackc/...", "internal/app/...", "reconciler/...",
		},
		why: "it says who asks, of a credential and of what a small store knows; what is asked for is none of its business",
	},
	{
		from: []string{"migrations/..."},
		may:  []string{stdlib, others, "internal/pgurl"},
		why:  "each version of the program runs on the schema before and after: migrations do not follow the code",
	},
	{
		from: []string{"proto/..."},
		may:  []string{stdlib, others, "proto/..."},
		why:  "the contract stands alone, so that clients import it and nothing else",
	},
	{
		from: []string{"fakeprovider/..."},
		may:  []string{stdlib, others, "fakeprovider/..."},
		why:  "a witness that shared code with us would share our mistakes",
	},
	{
		from:  []string{"guard"},
		may:   []string{stdlib, "actions", "internal/jws"},
		never: []string{"github.com/jackc/...", "google.golang.org/grpc/..."},
		why:   "it is linked into services of others: they get what they ask for, and nothing of Onceward's inside",
	},
	{
		from:  []string{"guard/..."},
		but:   []string{"guard"},
		may:   []string{stdlib, "guard", "google.golang.org/..."},
		never: []string{"ledger/...", "dispatch/...", "server/...", "policy/...", "reconciler/..."},
		why:   "a service that writes knows tokens, not how they came about",
	},
	{
		from: []string{"internal/jws"},
		may:  []string{stdlib, "github.com/go-jose/..."},
		why:  "who trusts a signature wants to read all of the code that checks it",
	},
	{
		from: []string{"internal/panics"},
		may:  []string{stdlib},
		why:  "everybody who recovers calls it, about things that it must not know",
	},
	{
		from: []string{"internal/secrets"},
		may:  []string{stdlib, "github.com/tink-crypto/...", "golang.org/x/sys/..."},
		why:  "it reads keys: the less it knows, the less can tell them",
	},
	{
		from: []string{"internal/signing"},
		may:  []string{stdlib, "guard", "internal/jws", "ledger"},
		why:  "what is signed is what the ledger holds; whether and when is decided elsewhere",
	},
	{
		from: []string{"examples/guard"},
		may:  []string{stdlib, "guard"},
		why:  "it is what a service of others looks like",
	},
	{
		from: []string{"internal/demo/..."},
		may:  []string{stdlib, others, "proto/...", "fakeprovider"},
		why:  "the demo judges from outside: as a client, and by what the provider holds",
	},
	{
		from: []string{"examples/agent-trace"},
		may:  []string{stdlib},
		why:  "it is data",
	},
	{
		from: []string{
			"actions/...", "dispatch", "guard/...", "inbox", "ledger/...", "policy/...", "reconciler", "server",
		},
		but:   []string{"actions/actionstest"}, // it runs an adapter under all of them
		never: []string{"github.com/prometheus/...", "go.opentelemetry.io/otel/sdk/...", "internal/telemetry"},
		why:   "who is observed does not know by whom: metrics are small interfaces, traces the API alone",
	},
	{
		from:  []string{"internal/doctor"},
		may:   []string{stdlib, "actions", "dispatch", "github.com/jackc/pgx/v5/..."},
		never: []string{"server", "reconciler", "cmd/..."},
		why:   "it looks at an installation that may not run",
	},
	{
		from:  []string{"internal/admin"},
		may:   []string{stdlib, "github.com/prometheus/client_golang/..."},
		never: []string{"ledger/...", "server/...", "internal/telemetry"},
		why:   "it tells strangers whether a process is ready: what it does not know it cannot tell",
	},
	{
		from: []string{"internal/arch"},
		may:  []string{stdlib},
		why:  "the judge depends on nobody it judges",
	},
}

// gates says who alone may import a package directly.
var gates = []struct {
	to   []string
	from []string
	why  string
}{
	{
		to: []string{"google.golang.org/grpc/...", "google.golang.org/genproto/..."},
		from: []string{
			"server/...", "cmd/...", "client/...", "proto/...", "internal/app/...", "internal/apptest/...", "internal/demo/...",
			"actions/grpcaction", "examples/grpc-adapter", "proof/...", "guard/guardgrpc", "internal/telemetry",
		},
		why: "domain code speaks typed errors; one file of the server makes statuses of them",
	},
	{
		to: []string{"github.com/jackc/..."},
		from: append([]string{
			"actions/sqlaction", // which refuses a database that holds a ledger
			"ledger/...", "migrations/...", "cmd/...", "proof/...", "internal/...",
		}, testSupport...),
		why: "an adapter that could open the ledger's database could write past the state machine",
	},
	{
		to:   []string{"internal/privatepg/..."},
		from: []string{"internal/privatepg/...", "internal/pgtest/...", "cmd/..."},
		why:  "only what starts a process for a person or a test may start a database",
	},
	{
		to:   append([]string{"testing/..."}, testSupport...),
		from: testSupport,
		why:  "what tests need has no place in the program",
	},
	{
		to:   []string{"cmd/..."},
		from: []string{"cmd/...", "examples/adapter"}, // a main package with adapters of its own
		why:  "a command line is for people; what others need belongs in a package of its own",
	},
	{
		to:   []string{"internal/app/..."},
		from: []string{"internal/app/...", "internal/apptest/...", "internal/crashpoint", "proof/...", "cmd/..."},
		why:  "it imports everybody, so that nobody else has to",
	},
	{
		to:   []string{"ledger/postgres/..."},
		from: append([]string{"ledger/postgres/...", "internal/app/...", "proof/...", "cmd/..."}, testSupport...),
		why:  "everybody else uses the ledger through an interface",
	},
}

// meaningless are package names that say nothing about what is inside.
var meaningless = []string{
	"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "util", "utils",
}
