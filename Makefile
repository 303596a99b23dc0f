# Everything is built and tested with the Go toolchain alone; `make help` lists the targets.

GO ?= go
BIN := bin
ESPALIER := $(BIN)/espalier
EXAMPLE := examples/agent-flow/contract-review.md
RUNS := examples/agent-flow/support-triage.md
# Not .md: it is not to be found as a workflow.
BROKEN := $(BIN)/broken.txt

# The race detector needs cgo, and cgo a C compiler. The product itself needs neither.
RACE := $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)

.DEFAULT_GOAL := help
.PHONY: help demo build install screenshots test test-clis test-temporal test-temporal-short test-live race lint vuln cross check fix bench bench-postgres soak soak-short

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/espalier, one binary without cgo
	CGO_ENABLED=0 $(GO) build -trimpath -o $(ESPALIER) ./cmd/espalier

install: ## install espalier where Go installs programs
	CGO_ENABLED=0 $(GO) install -trimpath ./cmd/espalier

demo: build ## show what Espalier does, without an API key or an account
	@echo; echo '$$ espalier list'; $(ESPALIER) list
	@echo; echo '$$ espalier validate examples'; $(ESPALIER) validate examples >/dev/null
	@echo; echo '$$ espalier show $(EXAMPLE)'; $(ESPALIER) show $(EXAMPLE)
	@echo; echo '$$ espalier graph $(EXAMPLE) -o $(BIN)/contract-review.svg'
	@$(ESPALIER) graph $(EXAMPLE) -o $(BIN)/contract-review.svg
	@echo 'The picture is in $(BIN)/contract-review.svg.'
	@echo; echo '$$ espalier run $(RUNS) --simulate'
	@$(ESPALIER) run $(RUNS) --simulate --input ticket='I was billed twice' --input customer_id=42
	@echo; echo 'The first workflow again, with two mistakes:'
	@sed -e 's/agent: summariser/agent: sumariser/' -e 's/reads: \[state.summary, state.findings\]/reads: [state.sumary, state.findings]/' \
		$(EXAMPLE) > $(BROKEN)
	@echo '$$ espalier validate - < broken.md'
	@$(ESPALIER) validate - --stdin-name broken.md < $(BROKEN); [ $$? -eq 3 ]

# The libraries of models and servers take minutes to compile with the race detector, and what is concurrent lies below
# them. So "make test" uses it for every package that is tested without them; "make race" for all.
LISTED = $$($(GO) list -f '{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}} .' ./... | grep $(1) '$(LIBRARIES)|espalier/internal/(registry|app|cli) ' | cut -d' ' -f1)
LIBRARIES = anthropic-sdk-go|openai-go|modelcontextprotocol

test: ## run all tests, with the race detector where that is cheap and there is a C compiler
	@$(if $(RACE),,echo 'No C compiler was found: the tests run without the race detector.')
	@[ "$$($(GO) env GOOS)" != linux ] || bwrap --ro-bind / / --unshare-all true 2>/dev/null || echo 'bubblewrap is missing or not permitted: only the Landlock sandbox is tested.'
	@command -v python3 >/dev/null 2>&1 || echo 'python3 was not found: tests that compare results with CPython are skipped.'
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || echo 'Chromium was not found: the tests of the web pages in a browser are skipped.'
	GORACE=atexit_sleep_ms=0 $(GO) test $(RACE) $(call LISTED,-vE)
	$(GO) test $(call LISTED,-E)

# SHOTS is the folder for the pictures of all pages: light and dark, 1280 and 360 pixels wide.
SHOTS ?= $(CURDIR)/$(BIN)/screenshots

screenshots: ## take pictures of all web pages; needs Chromium
	$(GO) test -count=1 -timeout 10m -run TestScreenshots ./internal/web -screenshots $(SHOTS)
	@echo 'The pictures are in $(SHOTS).'

# The programs are installed from npm into the user's cache, once: about a gigabyte.
test-clis: ## run steps through the real claude, codex, gemini and copilot, offline; installs them
	$(GO) test -tags clis -count=1 -timeout 20m -v -run 'TestRealCLIs' ./cmd/espalier

# The server is compiled into the user's cache, once, which takes minutes.
test-temporal: ## run the engine's tests on a Temporal server; installs it
	$(GO) test -tags temporal -count=1 -timeout 30m ./internal/engine/temporal
	$(GO) test -tags temporal -count=1 -timeout 30m -run OnTemporal ./cmd/espalier ./internal/format/formattest

test-temporal-short: ## the same for one minute
	$(GO) test -tags temporal -count=1 -timeout 15m -run 'TestChain|TestLong|TestReplay|TestLarge|TestStarved|Append' ./internal/engine/temporal

test-live: ## run the provider suite against real accounts, with the keys in the environment; costs money
	@[ -n "$$ANTHROPIC_API_KEY$$OPENAI_API_KEY$$GEMINI_API_KEY" ] || echo 'ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY are not set: no provider is tested.'
	$(GO) test -tags live -count=1 -timeout 20m -v -run 'TestLive$$' ./internal/registry

race: ## run all tests with the race detector
	GORACE=atexit_sleep_ms=0 $(GO) test -race ./...

# What differs between systems is in our own packages; the libraries of models and servers compile everywhere, and
# take minutes. "make cross" builds the whole program.
PORTABLE = $$($(GO) list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep -vE '$(LIBRARIES)' | cut -d' ' -f1)

lint: ## format, vet, staticcheck, and builds of our packages for other systems
	@unformatted=$$($(GO) tool gofumpt -l .); if [ -n "$$unformatted" ]; then \
		echo "These files are not formatted. Run \"make fix\":"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	CGO_ENABLED=0 GOOS=windows $(GO) build $(PORTABLE)
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build $(PORTABLE)
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./internal/process

# A folder with the OSV files of the database works offline: make vuln VULNDB=file:///FOLDER
VULNDB ?= https://vuln.go.dev

vuln: ## check the dependencies for known vulnerabilities; needs the Go vulnerability database
	@case '$(VULNDB)' in file://*) dir='$(VULNDB)'; find "$${dir#file://}" -name 'GO-*.json' 2>/dev/null | grep -q . || { \
		echo 'There are no vulnerabilities in $(VULNDB): nothing was checked.' >&2; exit 1; };; esac
	@$(GO) tool govulncheck -db '$(VULNDB)' ./... || { code=$$?; [ $$code -eq 3 ] || \
		echo 'Nothing was checked. If $(VULNDB) cannot be reached, copy the database and run: make vuln VULNDB=file:///FOLDER' >&2; \
		exit $$code; }

cross: ## build the whole program for Linux, Windows and macOS
	CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/espalier
	CGO_ENABLED=0 GOOS=windows $(GO) build -o /dev/null ./cmd/espalier
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/espalier

check: lint test ## what CI runs: lint, then all tests

fix: ## fix formatting
	$(GO) tool gofumpt -w .

# SOAK is how long real processes meet, after the model of the protocol. A failure prints the seed that plays it again.
SOAK ?= 8m

soak: ## act on runs from many processes at once, with kills and signals
	$(GO) test ./internal/engine/embedded -run 'TestProtocol|TestEveryInterleaving' -count=1 -timeout 1h -rapid.checks=50000 -rapid.nofailfile -protocol.pairs -protocol.depth=6
	$(GO) run ./internal/soak -for $(SOAK)

soak-short: ## the same for one minute, as CI runs it
	$(GO) run ./internal/soak -for 1m

bench-postgres: ## measure the durable core on PostgreSQL beside SQLite; starts a server of its own
	$(GO) run ./internal/bench postgres

bench: ## measure validation, start-up, layout and the durable core
	$(GO) run ./internal/bench
