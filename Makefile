SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# PKG=./internal/queue runs the tests of some packages only; RUN=TestClaim, with it, of some tests only. client and
# worker are modules of their own, so that whoever imports one gets no requirement with it; go.work joins them to this
# one. bench and compat are others, so that what tierq is compared with, and the clients of Faktory, are no dependencies
# of tierq; PKG=./bench and PKG=./compat are their tests.
PKG ?= ./...
RUN ?=
VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo dev)
# One set of build flags for run, test, image and packaging: what one of them has compiled, the others need not compile
# again. nomsgpack leaves out a codec of Gin's that nothing here uses; internal/testkit and .ci/ build with the same tag.
TAGS := nomsgpack
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -tags=$(TAGS)

GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The report checks backends and seeds only where every test was asked for.
PARTIAL := $(if $(filter-out ./...,$(PKG))$(RUN),TESTREPORT_SEEDS=off)
REPORT := $(PARTIAL) go run ./internal/testreport
comma := ,
# Test binaries have no debugging information: linking them takes a third of the time less.
TEST = test -json -vet=off -ldflags='-s -w' -p 4 -count=1 -timeout 40m $(if $(RUN),-run '$(RUN)') $(CHOICE)
# Proofs hunt for rare orders of steps, break things on purpose, or build for other machines. They take a fifth of all
# tests' time, so make test leaves them to make proofs. Where only a part was asked for, it has its proofs.
PROOFS := TestChaos TestMutations TestPoolMutations TestJournalMutations TestMutationsAreCaught \
	TestMutationsOfLibraries TestMutationsOfClaimsByIDAreCaught TestMutationsOfQueuesAreCaught TestReleaseArchives TestSmoke TestPeers \
	TestFairness TestGroupMutations
PROVEN := ./internal/chaos ./internal/conformance ./internal/packaging ./internal/queue ./internal/sim
# The temporary files of a run: .ci/scratch says where and why.
SCRATCH = export TMPDIR="$$(.ci/scratch)"; trap 'rm -rf "$$TMPDIR"' EXIT;
empty :=
PROOF_NAMES := '^($(subst $(empty) $(empty),|,$(strip $(PROOFS))))$$'
test: CHOICE := $(if $(PARTIAL),,-skip $(PROOF_NAMES))
proofs: CHOICE := -run $(PROOF_NAMES)
OURS := $(filter-out ./bench ./bench/... ./compat ./compat/...,$(patsubst ./...,./... ./client/... ./worker/...,$(PKG)))
# What takes longest begins first: the outages of e2e are waited for while the rest is run.
LONGEST := $(if $(filter ./...,$(OURS)),$(addprefix ./internal/,e2e e2e/face conformance queue archive chaos))
# The tests of bench and compat run beside the others, for all wait for most of their time; what they say follows when
# all are through. They are a group of processes of their own, so that an interrupt ends them with the rest.
BESIDE := $(foreach module,bench compat,$(if $(filter ./... ./$(module) ./$(module)/...,$(PKG)),$(module)))
BESIDE_STARTS = set -m; { failed=0; for module in $(BESIDE); do go -C "$$module" $(TEST) ./... || failed=1; done; \
	exit $$failed; } >"$$said" & beside=$$!; set +m; trap 'kill -- -"$$beside"; rm -f "$$said"; exit 130' INT TERM;
BESIDE_ENDS := wait "$$beside" || bad=1; cat "$$said";
TESTS = { said="$$(mktemp)"; bad=0; $(if $(BESIDE),$(BESIDE_STARTS)) \
	$(if $(OURS),go $(TEST) $(LONGEST) $(OURS) || bad=1;) $(if $(BESIDE),$(BESIDE_ENDS)) rm -f "$$said"; exit $$bad; }

.PHONY: help run build test proofs stores long bench chaos attack fuzz pictures lint vuln
.PHONY: release statements weights tidy fmt clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

run: ## start the server; nothing else is needed (embedded mode)
	go run ./cmd/tierq

build: ## build the static binary bin/tierq
	go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tierq ./cmd/tierq

test: ## run every suite on every backend, without its proofs; PKG=./internal/queue RUN=TestClaim for a part
	.ci/provide
	$(SCRATCH) $(TESTS) | $(REPORT)

stores: ## run the scripts on Redis 7.0 and 8 and Valkey 9, SQL on MariaDB 10.11 and MySQL 9, and the main stories on both
	$(SCRATCH) .ci/stores

proofs: ## break the scripts, the pool and the stores on purpose and see the suites notice, build a release, run benches
	.ci/provide
	$(SCRATCH) { bad=0; go $(TEST) $(PROVEN) || bad=1; go -C bench $(TEST) ./... || bad=1; exit $$bad; } | \
		TESTREPORT_SEEDS=off $(REPORT)

long: ## run both under the race detector and with long outages (needs a C compiler), and the pages in Firefox
	.ci/provide
	.ci/provide long
	$(SCRATCH) export CGO_ENABLED=1; $(subst -timeout 40m,-timeout 60m -race -tags=$(TAGS)$(comma)long,$(TESTS)) | \
		TESTREPORT_LONG=on $(REPORT)

bench: ## measure throughput, latency, CPU and bytes per job, beside other queues: docs/speed/BENCH.md; ARGS="-run peers -runs 5", ...
	.ci/provide
	.ci/provide bench
	go -C bench run . $(ARGS)

chaos: ## break servers and stores under load and say which promises held; ARGS="-long", "-embedded -for 30m", "-clean", "-mutations", ...
	.ci/provide
	go run ./internal/chaos/run $(ARGS)

attack: ## try the attacks of docs/proof/ATTACKS.md on a server of its own; ARGS="-url http://127.0.0.1:8080 -key tq_..." on one that runs
	.ci/provide
	go run ./internal/attack/run $(ARGS)

fuzz: ## give every parser of outside input to Go's fuzzer, 30 s each; ARGS="-time 5m -run Body"
	go run ./internal/fuzz/run $(ARGS)

pictures: ## take the README's pictures of the pages again, from real runs, into docs/pictures
	.ci/provide
	go test -tags=$(TAGS),pictures -count=1 -timeout 15m -v -run '^TestPictures$$' ./internal/e2e/face

lint: ## check format, vet, the linters of .golangci.yml, and that the downloaded libraries are those of go.sum
	@unformatted="$$(find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -l)"; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	mkdir -p bin && cp go.mod bin/verify.mod && cp go.sum bin/verify.sum
	go mod edit -replace=github.com/tierq/tierq/client=./client bin/verify.mod
	GOWORK=off go mod verify -modfile=bin/verify.mod
	go -C bench mod verify
	go -C compat mod verify
	go vet ./... ./client/... ./worker/...
	go vet -tags=$(TAGS),long,pictures,olddata ./internal/...
	go -C bench vet ./...
	go -C compat vet -tags=long ./...
	go -C examples/go vet ./...
	$(GOLANGCI) run
	cd client && $(GOLANGCI) run
	cd worker && $(GOLANGCI) run
	cd bench && $(GOLANGCI) run
	cd compat && $(GOLANGCI) run
	cd examples/go && $(GOLANGCI) run

vuln: ## look for known holes that the code reaches (govulncheck); says so where its database cannot be reached
	.ci/vuln

release: ## build static binaries for linux, macOS and Windows with checksums and lists of their parts into ./dist; VERSION=v0.1.0
	go run ./internal/release/run -version "$(VERSION)"

statements: ## count the statements of each room; ARGS="../before ." beside those of another checkout
	go run ./internal/architecture/statements $(ARGS)

weights: ## measure what each library costs, into docs/DEPENDENCIES.md
	go run ./internal/release/weights

tidy: ## go mod tidy, also while this version of the client is published nowhere
	mkdir -p bin && cp go.mod bin/tidy.mod && cp go.sum bin/tidy.sum
	go mod edit -replace=github.com/tierq/tierq/client=./client bin/tidy.mod
	GOWORK=off go mod tidy -modfile=bin/tidy.mod
	go mod edit -dropreplace=github.com/tierq/tierq/client bin/tidy.mod
	cp bin/tidy.mod go.mod && cp bin/tidy.sum go.sum
	go -C client mod tidy
	go -C worker mod tidy
	go -C bench mod tidy
	go -C compat mod tidy
	go -C examples/go mod tidy

fmt: ## format the code
	gofmt -w $$(find . -name '*.go' -not -path './.*')

clean: ## remove what was built; ./data stays
	rm -rf bin dist
	go clean -testcache
