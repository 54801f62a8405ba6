# The commands of this repository. `make check` is what CI runs; CONTRIBUTING.md explains each target.
#
# Everything is built with one toolchain and without cgo, so that a result here is the same result elsewhere.
# The Go command fetches the toolchain itself, through the module proxy, the first time.
export GOTOOLCHAIN := go1.27.3
export CGO_ENABLED := 0

# Pinned tools. They are installed under the toolchain above: a scanner built with an older one cannot load newer packages.
GOLANGCI_LINT := v2.15.0
GOVULNCHECK   := v1.9.0
VULNDB        := v0.0.0-20261105234957-e22db6528018

# Relative, so that a checkout whose path holds a space still makes.
TMP := .tmp
BIN := $(TMP)/bin

FUZZTIME  ?= 10s
BENCHTIME ?= 1s
KILLS     ?= 10000
SEEDS     ?= 100000
REV       ?= HEAD

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The order is cheap to dear; the tests come last so that their closing lines are the last thing on the screen.
check: fmt vet law lint wasm oldest vuln race test ## everything CI runs

fmt: ## formatting
	@echo "== fmt"
	@unformatted=$$(scripts/gofiles | xargs -r gofmt -l -s); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -s -w FILE):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet
	@echo "== vet"
	go vet ./...

law: ## the laws of the house: imports, purity, sizes, comments, documents
	@echo "== law"
	go test -count=1 ./internal/house

lint: $(BIN)/golangci-lint@$(GOLANGCI_LINT) ## golangci-lint
	@echo "== lint"
	$< run ./...

wasm: ## the pure packages build for js/wasm, and their tests pass there
	@echo "== wasm"
	scripts/wasm

oldest: ## one build with the Go release go.mod names, where that is the local one
	@echo "== oldest"
	scripts/oldest

vuln: $(BIN)/govulncheck@$(GOVULNCHECK) $(TMP)/vulndb@$(VULNDB) ## known vulnerabilities, from a database on this disk
	@echo "== vuln"
	$< -db "file://$(CURDIR)/$(TMP)/vulndb@$(VULNDB)" ./...

race: ## the race detector, where a C compiler is present
	@echo "== race"
	scripts/race

test: ## every test
	@echo "== test"
	go test ./...

bench: ## every benchmark, then whole processes against their budgets; BENCHTIME=1s
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
	go run ./bench

fuzz: ## every fuzz target for FUZZTIME=10s each
	scripts/fuzz $(FUZZTIME)

torture: ## the kill and fault suites at full length; KILLS=10000
	LOOM_TORTURE=$(KILLS) go test -count=1 -timeout=0 -v -run '^TestTorture' ./...

soak: ## the simulation over many seeds; SEEDS=100000
	go test -count=1 -timeout=0 -v -run '^TestFaultsDoNotChangeWhatARunComesTo$$' ./engine -seeds $(SEEDS)

equivalence: ## the decoders of this tree against those of a revision: results, reports, speed; REV=HEAD
	@scripts/equivalence $(REV)

oracle: ## our codecs against other libraries, which it downloads
	cd internal/oracle && go vet ./... && go test -count=1 -rapid.checks=2000 ./...

peers: ## whole processes beside those of another agent, which npm installs
	@scripts/peers

build: ## bin/loom, static and stripped
	go build -trimpath -ldflags '-s -w' -o bin/loom ./cmd/loom

docs: ## rewrite the generated parts of the documents
	go test -count=1 ./internal/house -run 'Diagram|Imports' -update
	go test -count=1 ./internal/cli -run Docs -update
	go test -count=1 ./wire -run 'Reference|Schemas' -update

tools: $(BIN)/golangci-lint@$(GOLANGCI_LINT) $(BIN)/govulncheck@$(GOVULNCHECK) $(TMP)/vulndb@$(VULNDB) ## install the pinned tools into .tmp

clean: ## remove what the targets above made
	rm -rf bin .tmp

# A tool carries its version in its name, so that a changed pin installs the new one and nothing else.
$(BIN)/golangci-lint@$(GOLANGCI_LINT):
	@echo "== install golangci-lint $(GOLANGCI_LINT)"
	GOBIN="$(CURDIR)/$(BIN)" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

$(BIN)/govulncheck@$(GOVULNCHECK):
	@echo "== install govulncheck $(GOVULNCHECK)"
	GOBIN="$(CURDIR)/$(BIN)" go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	mv $(BIN)/govulncheck $@

$(BIN)/indexdb@$(VULNDB):
	@echo "== install indexdb $(VULNDB)"
	GOBIN="$(CURDIR)/$(BIN)" go install golang.org/x/vulndb/cmd/indexdb@$(VULNDB)
	mv $(BIN)/indexdb $@

# The database is a module too: no host beside the module proxy is asked, and the answer does not change under a pin.
$(TMP)/vulndb@$(VULNDB): $(BIN)/indexdb@$(VULNDB)
	@echo "== index the vulnerability database $(VULNDB)"
	rm -rf $@.part $@
	go mod download golang.org/x/vulndb@$(VULNDB)
	$< -vulns "$$(go env GOMODCACHE)/golang.org/x/vulndb@$(VULNDB)/data/osv" -out $@.part
	mv $@.part $@

.PHONY: help check fmt vet law lint wasm oldest vuln race test bench fuzz torture soak oracle peers build docs tools clean
