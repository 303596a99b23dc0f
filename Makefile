# Everything is built and tested with the Go toolchain alone; `make help` lists the targets.

GO ?= go
BIN := bin
ESPALIER := $(BIN)/espalier
EXAMPLE := examples/agent-flow/contract-review.md
RUNS := examples/agent-flow/support-triage.md
comma := ,
# Not .md, so that Espalier does not find it as a workflow.
BROKEN := $(BIN)/broken.txt

# The race detector needs cgo, and cgo a C compiler. The product itself needs neither.
RACE := $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
# Programs, tests and checks are built the same way, so that each package is compiled once.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help demo build install screenshots pictures test test-exhaustive test-fast test-clis test-temporal test-objects test-deploy test-engines test-upgrade test-live race lint vuln cross check fix bench bench-postgres bench-temporal bench-web lines soak soak-short soak-workers soak-model soak-bounds docs recording release test-release test-confinement test-temporal-short

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/espalier, one binary without cgo
	$(GO) build -o $(ESPALIER) ./cmd/espalier

install: ## install espalier where Go installs programs
	$(GO) install ./cmd/espalier

# shown prints a command and runs it, so that what is shown can be copied.
shown = @echo; echo '$$ $(1)'; $(1)

demo: export PATH := $(abspath $(dir $(ESPALIER))):$(PATH)
demo: build ## show what Espalier does, without an API key or an account
	@echo; echo '$$ PATH="$(abspath $(dir $(ESPALIER))):$$PATH"'
	$(call shown,espalier list examples)
	$(call shown,espalier validate examples 2>&1 | grep workflows:)
	@echo 'Notes are advice: the workflows are valid. Without the grep, the command prints them.'
	$(call shown,espalier show $(EXAMPLE))
	$(call shown,espalier graph $(EXAMPLE) -o $(BIN)/contract-review.svg)
	@echo 'The picture is in $(BIN)/contract-review.svg.'
	$(call shown,espalier run $(RUNS) --simulate --input "ticket=I was billed twice" --input customer_id=42)
	@echo; echo 'The first workflow again, with two mistakes:'
	$(call shown,sed "s/agent: summarizer/agent: sumarizer/; s/state.summary$(comma) state.findings/state.sumary$(comma) state.findings/" $(EXAMPLE) > $(BROKEN))
	$(call shown,espalier validate - < $(BROKEN)); [ $$? -eq 3 ]
	@echo; echo 'Next: bin/espalier serve shows these runs in a browser; docs/first-steps.md creates a workflow of your own.'

# The libraries of models and servers take minutes to compile with the race detector, and what is concurrent lies below
# them. So "make test" uses it for every package that is tested without them, except for long comparisons of what is not
# concurrent; "make race" for all.
LISTED = $$($(GO) list -f '{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}} .' ./... | grep $(1) '$(LIBRARIES)|espalier/internal/(registry|app|cli) |$(COMPARISONS)' | cut -d' ' -f1)
LIBRARIES = anthropic-sdk-go|openai-go|modelcontextprotocol
COMPARISONS = ^[^ ]*/internal/(format/formattest|shell|step/node|secret|graph|python|expr|arch|cpython|report/(audit|transcript))[ ]

test: ## run all tests, with the race detector where that is cheap and there is a C compiler
	@$(if $(RACE),,echo 'No C compiler was found: the tests run without the race detector.')
	@[ "$$($(GO) env GOOS)" != linux ] || bwrap --ro-bind / / --unshare-all true 2>/dev/null || echo 'bubblewrap is missing or not permitted: only the Landlock sandbox is tested.'
	@command -v python3 >/dev/null 2>&1 || echo 'python3 was not found: tests that compare results with CPython are skipped.'
	@[ "$$($(GO) env GOOS)" != linux ] || command -v systemd-analyze >/dev/null 2>&1 || echo 'systemd-analyze was not found: the systemd unit is not verified.'
	@fc-list ':lang=ja' 2>/dev/null | grep -q . || echo 'No Japanese font was found: drawing Chinese, Japanese and Korean text is not tested.'
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || echo 'Chromium was not found: the tests of the web pages in a browser are skipped.'
	$(if $(RACE),CGO_ENABLED=1) GORACE=atexit_sleep_ms=0 $(GO) test -timeout 20m $(RACE) $(call LISTED,-vE)
	$(GO) test -timeout 20m -p 3 ./internal/web $(call LISTED,-E) # the longest first; processes of tests often wait

# The slowest packages: they use real processes, browsers and databases, comparisons with other programs, and the whole
# program, which takes long to link.
SLOW = cmd/espalier|internal/(web|server|cli|app|registry|analysis|api|bench|client|manifest|mcpserver|reference|process|shell|cpython|secret|soak|provider/cliagent|journal/(sqlite|postgres)|engine/(embedded|temporal)|format/formattest|step/(node|command|script)|tool/(mcp|builtin)|report/(transcript|otel)|graph)

# "make test" takes a selection of the moments to kill a run at, of the seeds of simulations, and of the widths of pages.
test-exhaustive: ## kill runs at every write, before and after it; takes longer than "make test"
	ESPALIER_TEST_EXHAUSTIVE=1 $(GO) test -count=1 -timeout 60m -run 'TestCrash|TestCreateInterrupted|TestRunsSurviveStops|TestExamplesTakeSloppyReplies|TestPagesAreTheSame' \
		./cmd/espalier ./internal/engine/embedded ./internal/format/formattest ./internal/web

test-fast: ## run the tests that need no other process, in less than a minute once compiled
	$(GO) test $$($(GO) list ./... | grep -vE '/($(SLOW))$$')

# Every combination of a user (root, ordinary) and a sandbox (bubblewrap, Landlock with namespaces, Landlock alone) has
# to run: what other targets skip is a failure here.
CONFINED = ./internal/process ./internal/usertest ./internal/trust ./internal/registry ./internal/tool/builtin ./internal/tool/notebook \
	./internal/secret ./internal/cli ./internal/step/command ./internal/diag ./internal/text ./cmd/espalier
CONFINEMENT = TestSandbox|TestLimitsHold|TestSocketsInASandbox|TestRunBecomesAnOrdinaryUser|TestApprovalIsForContentsOfAProject|TestStore|TestStorage|TestRunFolderTakesNoConfiguration|TestWorkflowRulesHoldForResolvedPaths|TestGitRunsNothingThatARunWrote|TestNotebooksAreNeverConfiguration|TestNoEncoderLeaks|TestNothingReachesTheTerminalRaw|TestTerminalIgnoresControlSequencesInContent|TestInputsAreData|TestValuesAreNoCode|TestFramesOfLongLinesAreCropped|TestNestingCostsNoMoreThanText|TestNewestLandlock|TestGaps|TestPromisesHoldForOrdinaryUsers

test-confinement: ## test the sandboxes as root and as an ordinary user; needs root and bubblewrap
	@mkdir -p $(BIN)
	@ESPALIER_TEST_CONFINEMENT=required $(GO) test -p 1 -count=1 -timeout 5m -v -run '^($(CONFINEMENT))' $(CONFINED) \
		> $(BIN)/confinement.txt 2>&1 || { cat $(BIN)/confinement.txt; exit 1; }
	@grep -E '^ *--- (PASS|SKIP)' $(BIN)/confinement.txt
	@! grep -q -e '--- SKIP' $(BIN)/confinement.txt || { echo 'Some combinations were skipped.' >&2; exit 1; }

# SHOTS is the folder for the pictures of all pages: light and dark, 1280 and 360 pixels wide.
SHOTS ?= $(CURDIR)/$(BIN)/screenshots

screenshots: ## take pictures of all web pages; needs Chromium
	$(GO) test -count=1 -timeout 10m -run TestScreenshots ./internal/web -screenshots $(SHOTS)
	@echo 'The pictures are in $(SHOTS).'

pictures: ## take the pictures of web pages in docs/pictures, of runs of the examples; needs Chromium
	$(GO) test -count=1 -timeout 10m -run TestPicturesOfTheDocumentation ./internal/web -pictures $(CURDIR)/docs/pictures

# The programs are installed from npm into the user's cache, once: about a gigabyte.
test-clis: ## run steps through the real claude, codex, gemini and copilot, and claude as an MCP client, offline; installs them
	$(GO) test -tags clis -count=1 -timeout 20m -v -run 'TestRealCLIs|TestClaudeCode' ./cmd/espalier

# The server is compiled into the user's cache, once, which takes minutes.
test-temporal: ## run the engine's tests on a Temporal server; installs it
	$(GO) test -tags temporal -count=1 -timeout 120m ./internal/engine/temporal
	$(GO) test -tags temporal -count=1 -timeout 30m -run OnTemporal ./cmd/espalier
	$(GO) test -tags temporal -count=1 -timeout 90m -run TestEnginesAgree ./internal/format/formattest -engines Temporal

# The server is compiled into the user's cache, once, which takes minutes.
test-objects: ## test object storage with the Versity S3 Gateway and PostgreSQL; installs the gateway
	$(GO) test -tags objects -count=1 -timeout 30m -run 'Object|Bucket' ./internal/journal/postgres ./cmd/espalier

test-engines: ## compare SQLite, PostgreSQL and Temporal: the same runs with the same stops; prints a table
	bash -o pipefail -c "$(GO) test -tags temporal -count=1 -timeout 120m -run TestEnginesAgree \
		./internal/format/formattest -v | grep -v '^ *\(===\|---\)'"

# One minute, once the server is in the cache.
SHORT_TEMPORAL = TestChain|TestLongRun|TestReplay|TestLarge|TestBranchesWaiting|TestLaterVersionsTake|TestPayloads|TestRunsAreFound|TestStored|TestLostWorkflowRepeats|Append

test-temporal-short: ## the most important of these tests, in a minute; installs the server
	$(GO) test -tags temporal -count=1 -timeout 30m -run '$(SHORT_TEMPORAL)' ./internal/engine/temporal

# The release that works beside this one while machines are updated: a commit, until there is a release.
PREVIOUS_RELEASE = 7e4c0216

test-upgrade: ## run workers of the previous release and of this one on one database
	rm -rf bin/previous && git worktree prune && git worktree add --detach bin/previous $(PREVIOUS_RELEASE)
	cd bin/previous && $(GO) build -o ../espalier-previous ./cmd/espalier
	git worktree remove --force bin/previous
	PREVIOUS=$(CURDIR)/bin/espalier-previous $(GO) test -tags upgrade -count=1 -timeout 10m -run TestRollingUpgrade ./cmd/espalier

# A module of its own: the types of Kubernetes are large, and Espalier does not need them.
test-deploy: ## check the files for Compose and Kubernetes with the types of their readers, and build the image; needs root
	cd deploy/manifests && $(GO) vet ./... && $(GO) test -count=1 ./...
	command -v buildah >/dev/null || apt-get install -y --no-install-recommends buildah bubblewrap
	NEED_BUILDAH=1 $(GO) test -count=1 -run TestContainerRootIsEnough ./cmd/espalier

test-live: ## run the provider suite against real accounts, with the keys in the environment; costs money
	@[ -n "$$ANTHROPIC_API_KEY$$OPENAI_API_KEY$$GEMINI_API_KEY" ] || echo 'ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY are not set: nothing will be proven about any provider.'
	$(GO) test -tags live -count=1 -timeout 20m -v -run 'TestLive$$' ./internal/registry

race: ## run all tests with the race detector
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test -race ./...

# What differs between systems is in our own packages; the libraries of models and servers compile everywhere, and
# take minutes. "make cross" builds the whole program.
PORTABLE = $$($(GO) list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep -vE '$(LIBRARIES)' | cut -d' ' -f1)

# Build tags of tests that only some targets run.
TAGS = clis,live,objects,site,temporal,upgrade

lint: ## format, vet, staticcheck, and builds of our packages for other systems
	@unformatted=$$($(GO) tool gofumpt -l .); if [ -n "$$unformatted" ]; then \
		echo "These files are not formatted. Run \"make fix\":"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags $(TAGS) ./...
	$(GO) tool staticcheck -tags $(TAGS) ./...
	GOOS=windows $(GO) build $(PORTABLE)
	GOOS=darwin GOARCH=arm64 $(GO) build $(PORTABLE)
	GOOS=linux GOARCH=arm64 $(GO) build ./internal/process

# A folder with the OSV files of the database works offline: make vuln VULNDB=file:///FOLDER
VULNDB ?= https://vuln.go.dev

vuln: ## check the dependencies for known vulnerabilities; needs the Go vulnerability database
	@case '$(VULNDB)' in file://*) dir='$(VULNDB)'; find "$${dir#file://}" -name 'GO-*.json' 2>/dev/null | grep -q . || { \
		echo 'There are no vulnerabilities in $(VULNDB): nothing was checked.' >&2; exit 1; };; esac
	@$(GO) tool govulncheck -db '$(VULNDB)' ./... || { code=$$?; [ $$code -eq 3 ] || \
		echo 'Nothing was checked. If $(VULNDB) cannot be reached, copy the database and run: make vuln VULNDB=file:///FOLDER' >&2; \
		exit $$code; }

# The module cache comes before the network, so that "go run PACKAGE@VERSION" works without a network once the modules
# are there. It looks for retracted versions, also of modules that it has.
CACHED = GOPROXY=file://$$($(GO) env GOMODCACHE)/cache/download,$$($(GO) env GOPROXY)

HUGO := github.com/gohugoio/hugo@v0.152.2
DOCS := $(BIN)/docs

docs: ## build the documentation site in bin/docs; it opens from the file system, too
	$(GO) run ./internal/reference markdown $(BIN)/reference
	cd site && HUGO_PARAMS_VERSION=$(VERSION) $(CACHED) $(GO) run $(HUGO) --quiet --noBuildLock --cleanDestinationDir \
		--destination $(CURDIR)/$(DOCS)/$(VERSION)
	@cd $(DOCS) && printf 'window.docsVersions = {"current": "%s", "all": [%s]};\n' $(VERSION) \
		"$$(ls -d */ | sort -rV | sed 's|\(.*\)/|"\1"|' | paste -sd, -)" > versions.js
	@printf '<!doctype html><meta http-equiv="refresh" content="0; url=%s/index.html"><a href="%s/index.html">Espalier</a>\n' \
		$(VERSION) $(VERSION) > $(DOCS)/index.html
	$(GO) test -tags site -count=1 -run TestSite ./internal/reference -site $(CURDIR)/$(DOCS)/$(VERSION)
	@echo 'Open $(DOCS)/index.html.'

XTERM := @xterm/headless@6.0.0
RECORDING := $(CURDIR)/$(BIN)/recording

recording: build ## record docs/pictures/recording.svg from a real run; needs Node.js, npm and script(1)
	rm -rf $(RECORDING)/project && mkdir -p $(RECORDING)/project/.git
	npm install --silent --no-audit --no-fund --prefix $(RECORDING) $(XTERM)
	cp $(RUNS) docs/recording/replies.script.yaml $(RECORDING)/project
	cd $(RECORDING)/project && PATH=$(CURDIR)/$(BIN):$$PATH NODE_PATH=$(RECORDING)/node_modules \
		node $(CURDIR)/docs/recording/record.mjs $(CURDIR)/docs/recording/session.json $(CURDIR)/docs/pictures/recording.svg

# The newest version of goreleaser that the Go version of go.mod builds and whose modules can all be fetched.
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.14.0
# The version of a release is the newest one of the changelog.
VERSION ?= $(shell sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -1)

release: ## build archives, packages, the image, checksums and parts lists of a release in dist/; uploads nothing
	VERSION=$(VERSION) $(CACHED) $(GO) run $(GORELEASER) release --snapshot --clean
	node packaging/npm/pack.mjs dist $(VERSION)
	node packaging/image.mjs dist $(VERSION)
	cd dist && sha256sum npm/*.tgz *.oci.tar >> checksums.txt

test-release: ## check dist/: install the packages, run them, and build again elsewhere to compare the checksums
	packaging/check.sh dist $(VERSION)

cross: ## build the whole program for Linux, Windows and macOS
	$(GO) build -o /dev/null ./cmd/espalier
	GOOS=windows $(GO) build -o /dev/null ./cmd/espalier
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/espalier

check: lint test ## lint, then all tests; CI also runs test-temporal-short and soak-short

fix: ## fix formatting
	$(GO) tool gofumpt -w .

# SOAK is how many seconds "make soak" takes: the model of the protocol, and then real processes for the rest. A failure
# prints the seed that plays it again. A lap plays every pair of commands and then every triple; the last lines say how
# many laps were played. SOAKFLAGS='-seed SEED -from ROUND' continues until there were 50, or as many as -repeat says.
SOAK ?= 600
SOAKFLAGS ?=

MODEL = TestRandomInterleavingsLeaveNoRunStuck|TestEvery|TestClocksMayJump

soak: ## act on runs from many processes at once, with kills, full disks, clock jumps and slow readers: ten minutes
	start=$$(date +%s); \
	$(GO) test ./internal/engine/embedded -run '$(MODEL)' -count=1 -timeout 5m && \
	$(GO) run ./internal/soak -for $$(($(SOAK) - $$(date +%s) + start))s $(SOAKFLAGS)

soak-workers: ## kill three workers on PostgreSQL and two on Temporal at random, for ten minutes; installs Temporal
	$(GO) run ./internal/soak -fleets -for $(SOAK)s $(SOAKFLAGS)

soak-model: soak-bounds ## explore the model of the protocol deeper, without a bound on the time
	$(GO) test ./internal/engine/embedded -run '$(MODEL)' -count=1 -timeout 2h -rapid.checks=50000 -rapid.nofailfile -protocol.pairs=5 -protocol.triples=2

BOUNDS = TestNoRunExceedsItsBounds|TestNoWorkflowExceedsItsEstimate|TestNoCycleExceedsItsEstimate
CHECKS ?= 5000

soak-bounds: ## compare runs of thousands of random workflows with their estimates
	$(GO) test ./internal/engine/embedded ./internal/format/formattest -run '$(BOUNDS)' -count=1 -timeout 2h -rapid.checks=$(CHECKS) -rapid.nofailfile

soak-short: ## the same for one minute, as CI runs it
	$(GO) run ./internal/soak -for 1m

bench-postgres: ## measure the durable core on PostgreSQL beside SQLite; starts a server of its own
	$(GO) run ./internal/bench postgres

bench-temporal: ## compare runs on a Temporal server with plain Temporal code; installs the server
	$(GO) run -tags temporal ./internal/bench temporal

bench-web: ## measure the list of 100,000 runs on the server, and how soon pages are usable in a browser
	$(GO) test ./internal/web -run '^$$' -bench 'RunsPage|PageIsUsable'

lines: ## count product code, and what the commits of the restructuring changed
	$(GO) run ./internal/lines

bench: ## measure validation, start-up, layout and the durable core
	$(GO) run ./internal/bench
