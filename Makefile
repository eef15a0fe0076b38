# The one entry to building, testing and checking Onceward. `make help` lists it.
#
# It needs Go and nothing else: the tools are built from the pinned versions in
# tools/*/go.mod, and the tests find or start a Postgres themselves.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO       ?= go
BIN      := $(CURDIR)/bin
TOOLS    := $(BIN)/tools
ONCEWARD := $(BIN)/onceward

BUF         := $(TOOLS)/buf
GOLANGCI    := $(TOOLS)/golangci-lint
GRPCURL     := $(TOOLS)/grpcurl
GOVULNCHECK := $(TOOLS)/govulncheck
PROMTOOL    := $(TOOLS)/promtool
PROTO_IMAGE := proto/onceward.binpb

# Modules of their own, so that what only they need is nobody's dependency.
MODULES := bench chaos deploy catalog/stripemock

# What a caller may set.
RUN_FLAGS  ?=#      more flags for `onceward dev`
TEST_FLAGS ?=#      more flags for `go test`, as in TEST_FLAGS=-v
TEST_PKGS  ?= ./...
COUNT      ?= 3#    rounds of test-crash
FUZZTOTAL  ?= 10m#  time for all fuzz targets together
FUZZTIME   ?=#      time for each of them in its place, as in 30s
FUZZONLY   ?= .#    which of them, by a regular expression on folder and name
DEPTH      ?= 18#   steps that model searches every scenario to; -1: until there is nothing new
BENCH_FLAGS ?=#     more flags for bench, as in BENCH_FLAGS='-rounds=1 -only=grpc,dbos'
SEED     ?= 0#      of chaos and soak: the schedule of faults and requests; 0 takes one from the clock
DURATION ?= 5m#     of chaos and soak: how long there are faults and requests
REPLICAS ?= 3#      of chaos and soak
FAULTS   ?= all#    of chaos: names of faults, or beginnings of names, with commas between
CHAOS_FLAGS ?=#     more flags for chaos and soak, as in CHAOS_FLAGS='-clients=50 -rate=100'
METRICS_BASE ?= 9300#  of chaos-watched: port of the first replica's metrics, the others' come after it
PNG ?= $(BIN)/chaos.png#  of chaos-watched: where the dashboard is drawn

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: build ## Build and start everything on this machine: onceward dev
	exec $(ONCEWARD) dev $(RUN_FLAGS)

.PHONY: demo
demo: build ## Show the double charge with and without Onceward
	exec $(ONCEWARD) demo

.PHONY: build
build: ## Build bin/onceward
	CGO_ENABLED=0 $(GO) build -trimpath -o $(ONCEWARD) ./cmd/onceward

##@ Test

.PHONY: test
test: test-stripe test-deploy test-chaos ## Run every test
	$(GO) test -timeout=15m $(TEST_FLAGS) $(TEST_PKGS)

.PHONY: test-race
test-race: ## Run every test under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout=30m $(TEST_FLAGS) $(TEST_PKGS)

.PHONY: test-crash
test-crash: ## Run only the tests that kill processes, COUNT times each
	$(GO) test -run='Crash|Kill' -count=$(COUNT) -timeout=30m $(TEST_FLAGS) $(TEST_PKGS)

# A million worlds take some 10 s of a core; two steps more, four times as much.
.PHONY: model
model: ## Search the model of the state machine DEPTH steps deep, beyond what test does
	$(GO) test -run=TestEveryWorld -v -timeout=0 ./internal/model -depth=$(DEPTH) $(TEST_FLAGS)

.PHONY: mutants
mutants: ## Seed each fault of internal/mutants in turn: a test must catch it (some minutes)
	$(GO) test -run=TestMutantsAreCaught -v -timeout=0 ./internal/mutants -mutants $(TEST_FLAGS)

# A real mail server needs root and a package of the system; see the test for what
# it says when one is missing.
.PHONY: test-smtp
test-smtp: ## Run the SMTP adapter against a real OpenSMTPD (Linux, root, apt-get install opensmtpd)
	$(GO) test -tags=opensmtpd -timeout=5m $(TEST_FLAGS) ./actions/smtpaction

# Modules of their own, whose dependencies never meet ours.
.PHONY: test-stripe
test-stripe: ## Check the catalogue's Stripe requests against Stripe's own mock
	$(GO) -C catalog/stripemock test $(TEST_FLAGS) ./...

.PHONY: test-deploy
test-deploy: ## Check alert rules, dashboard, runbooks and manifests of deploy/ against the metrics
	$(GO) -C deploy test $(TEST_FLAGS) ./...

# promtool and the collector take minutes to build, once.
.PHONY: test-alerts
test-alerts: $(PROMTOOL) ## Run the unit tests of the alert rules, and check Prometheus's configuration
	cd deploy/prometheus && $(PROMTOOL) check config --lint=all --lint-fatal prometheus.yml
	cd deploy/prometheus && $(PROMTOOL) test rules tests/*.yaml

.PHONY: test-collector
test-collector: ## Start the OpenTelemetry collector on its configuration, and send it a span
	$(GO) -C deploy/collector test $(TEST_FLAGS) ./...

.PHONY: test-chaos
test-chaos: ## Test the fault campaign: its judge, its checker, and a short one of it
	$(GO) -C chaos test -timeout=10m -parallel=4 $(TEST_FLAGS) $$($(GO) -C chaos list ./... | grep -v -e /scenarios -e /pgcluster)

# A pooler, a full disk and clocks are of the system: see the tests for what they say
# when something is missing.
.PHONY: test-faults
test-faults: ## Break one thing at a time, and look what is left (Linux, root, apt-get install pgbouncer faketime)
	$(GO) -C chaos test -timeout=15m $(TEST_FLAGS) ./pgcluster ./scenarios

# chaos/ is a module of its own, as bench/ is. The last line on standard output is the
# result as one JSON object; it fails when a law was broken. docs/reliability.md.
CHAOS := $(BIN)/chaos

.PHONY: chaos-build
chaos-build:
	$(GO) -C chaos build -o $(CHAOS) .

.PHONY: chaos
chaos: chaos-build ## Run replicas under every fault for DURATION, and judge: SEED, REPLICAS, FAULTS
	$(CHAOS) -seed=$(SEED) -duration=$(DURATION) -replicas=$(REPLICAS) -faults=$(FAULTS) $(CHAOS_FLAGS)

# The campaign beside a Prometheus of its own, with the alert rules and the dashboard
# that ship (apt-get install prometheus chromium). What was seen is told on standard
# error; standard output and exit code are the campaign's.
PANELS := $(BIN)/panels

.PHONY: chaos-watched
chaos-watched: chaos-build ## Run chaos, say which panels had data and which alerts fired, and draw the dashboard: PNG
	$(GO) -C deploy build -o $(PANELS) ./cmd/panels
	cd deploy && $(PANELS) -png=$(abspath $(PNG)) \
	  -targets=$$(seq -f '127.0.0.1:%.0f' $(METRICS_BASE) $$(($(METRICS_BASE) + $(REPLICAS))) | paste -s -d, -) -- \
	  $(CHAOS) -seed=$(SEED) -duration=$(DURATION) -replicas=$(REPLICAS) -faults=$(FAULTS) -metrics-base=$(METRICS_BASE) $(CHAOS_FLAGS)

# The campaign with a fault every half minute, and a look at memory, connections,
# sizes and latencies each minute; the result says how they have drifted.
.PHONY: soak
soak: chaos-build ## Run the same for hours with few faults, and tell what drifts: DURATION=4h
	$(CHAOS) -seed=$(SEED) -duration=$(DURATION) -replicas=$(REPLICAS) -faults=$(FAULTS) -gap=30s -look-every=1m -patience=5m $(CHAOS_FLAGS)

.PHONY: fuzz
fuzz: ## Run all fuzz targets in turn, for FUZZTOTAL together
	GO='$(GO)' FUZZTOTAL='$(FUZZTOTAL)' FUZZTIME='$(FUZZTIME)' FUZZONLY='$(FUZZONLY)' scripts/fuzz.sh

# It builds the program of a former revision (internal/upgrade/base), so that the
# clone must have it.
.PHONY: test-upgrade
test-upgrade: ## Upgrade a running installation from internal/upgrade/base to this tree, under load
	$(GO) test -tags=upgrade -count=1 -timeout=10m $(TEST_FLAGS) ./internal/upgrade

.PHONY: smoke
smoke: ## Do what the README says in a fresh clone of HEAD: build, start, call, stop
	scripts/smoke.sh

##@ Measure

# bench/ is a module of its own: what is compared with never meets our
# dependencies. Temporal and Restate are modules of their own again; they are
# built while it runs, and left out aloud where that fails.
BENCH := $(BIN)/bench
BENCH_RUN = $(BENCH) -source=bench -out=bench/results.json -page=docs/performance.md -profiles=bench/profiles

.PHONY: bench-build
bench-build:
	$(GO) -C bench build -o $(BENCH) .

.PHONY: bench
bench: bench-build ## Measure Onceward beside the alternatives (three quarters of an hour; writes docs/performance.md)
	$(BENCH_RUN) -merge $(BENCH_FLAGS)

.PHONY: bench-growth
bench-growth: bench-build ## Measure the ledger on 10 million operations of 1 million tenants (50 GB)
	$(BENCH_RUN) -merge -only=growth -grow=10000000 -tenants=1000000 $(BENCH_FLAGS)

.PHONY: bench-smoke
bench-smoke: bench-build ## Run the benchmark once and briefly: does it still measure, and lose nothing?
	$(BENCH) -quick $(BENCH_FLAGS)

##@ Check

.PHONY: lint
lint: $(GOLANGCI) ## Lint the Go code, that of the larger modules beside this one too
	$(GOLANGCI) run $(TEST_PKGS)
	for module in $(MODULES); do (cd $$module && $(GOLANGCI) run ./...); done

.PHONY: generate
generate: $(BUF) ## Regenerate all generated files
	$(BUF) generate
	$(GO) generate ./...

.PHONY: verify
verify: $(BUF) ## Fail if generated files, protos, modules, format or vet are not in order
	GO='$(GO)' BUF='$(BUF)' PROTO_IMAGE='$(PROTO_IMAGE)' scripts/verify.sh

# The image is what `buf breaking` compares with, and verify wants it to hold
# every message and method, so that nothing stays unprotected. Refresh it in the
# commit that adds to the protos. A change that breaks callers is refused;
# BREAKING=yes is right only while nobody can have built on what is removed, and
# the commit message should say why.
.PHONY: proto-image
proto-image: $(BUF) ## Refresh the committed image of the protos (refuses breaking changes)
ifneq ($(BREAKING),yes)
	$(BUF) breaking --against $(PROTO_IMAGE)
endif
	$(BUF) build --exclude-source-info -o $(PROTO_IMAGE)

# A report, not a gate: a finding in the standard library may want a Go release
# that is not here yet. Exit code 3 means that it found something; any other
# failure is a failure. The database comes as a Go module, so that a module
# proxy is all it needs.
.PHONY: vuln
vuln: $(GOVULNCHECK) ## Report known vulnerabilities that the code can reach
	dir=$$($(GO) mod download -json golang.org/x/vulndb@latest | sed -n 's/^.*"Dir": "\(.*\)".*$$/\1/p'); \
	rm -rf $(BIN)/vulndb; \
	$(TOOLS)/indexdb -out $(BIN)/vulndb -vulns "$$dir/data/osv"
	$(GOVULNCHECK) -db file://$(BIN)/vulndb ./... || test $$? -eq 3

.PHONY: clean
clean: ## Remove bin and cached test results; data folders of onceward dev stay
	rm -rf $(BIN)
	$(GO) clean -testcache

# Tools: one module each, so that their dependencies never meet ours. A binary is
# built again when its module or the Go version changes.
$(BUF): tools/buf/go.mod tools/buf/go.sum $(TOOLS)/go-version
$(GOLANGCI): tools/golangci/go.mod tools/golangci/go.sum $(TOOLS)/go-version
$(GRPCURL): tools/grpcurl/go.mod tools/grpcurl/go.sum $(TOOLS)/go-version
$(GOVULNCHECK): tools/vuln/go.mod tools/vuln/go.sum $(TOOLS)/go-version
$(PROMTOOL): tools/promtool/go.mod tools/promtool/go.sum $(TOOLS)/go-version

# Rules are checked without the clouds that Prometheus can discover targets in.
$(PROMTOOL): TOOL_FLAGS := -tags=remove_all_sd

$(BUF) $(GOLANGCI) $(GRPCURL) $(GOVULNCHECK) $(PROMTOOL):
	@echo 'building $(@F) from $(<D) (once; minutes at most)'
	cd $(<D) && $(GO) build -buildvcs=false $(TOOL_FLAGS) -o $(TOOLS)/ tool
	@touch $@

.PHONY: grpcurl
grpcurl: $(GRPCURL) ## Build bin/tools/grpcurl

.PHONY: FORCE
$(TOOLS)/go-version: FORCE
	@mkdir -p $(@D)
	@version="$$($(GO) version)"; [ "$$version" = "$$(cat $@ 2>/dev/null)" ] || echo "$$version" > $@
