# Everything that is needed beside Go, make and git is built from Go modules into .bin. Run `make` for the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/.bin
# Where `make up` keeps its clusters.
TRY := $(CURDIR)/.try
CONTROL_PLANE := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kwokctl
VERSION := $(shell git describe --tags --dirty 2>/dev/null || echo v0.0.0-g$$(git rev-parse --short HEAD 2>/dev/null || echo none))
STAMP := -s -w -X k8s.io/component-base/version.gitVersion=$(VERSION)
# A tag of an image has no +.
IMAGE_TAG := $(subst +,-,$(VERSION))
# Version control is asked for VERSION only: go's own stamp fails in a checkout of another user.
# Without grpcnotrace gRPC, which traces bring along, keeps a third of each program that nothing calls.
BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace
export FLOTILLA_BIN := $(BIN)

##@ Start here
.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## "; printf "Usage: make TARGET\n" } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: programs ## Build the test control plane and our programs into .bin (8 min the first time, then seconds)
	@e2e/tools/build.sh $(BIN) $(CONTROL_PLANE)

.PHONY: up
up: setup ## Start a hub with three members, apply the samples, show where their pods run
	@$(BIN)/flotilla try up --dir $(TRY) --bin $(BIN) --samples e2e/samples

.PHONY: status
status: ## Show again what `make up` started
	@$(BIN)/flotilla try status --dir $(TRY)

.PHONY: down
down: ## Remove what `make up` started
	@if [ -x $(BIN)/flotilla ]; then $(BIN)/flotilla try down --dir $(TRY); else echo "nothing runs: .bin/flotilla was never built"; fi

##@ Change something
.PHONY: generate
generate: ## Write deep copies and CRDs again after a change of the API types
	@e2e/tools/build.sh $(BIN) controller-gen
	@apis/crds/generate.sh $(BIN)/controller-gen

.PHONY: programs
programs: ## Build flotilla, flotilla-hub, flotilla-agent, flotilla-capi and flotilla-node into .bin
	@# Each make builds in a folder of its own: two at once do not meet. The linker leaves alone what is up to date in it.
	@# A program that did not change keeps its time: the try-out restarts what is newer than what runs.
	@[ -f $(BIN)/flotilla ] || echo "building flotilla, flotilla-hub, flotilla-agent, flotilla-capi and flotilla-node (about 1 min the first time)"
	@mkdir -p $(BIN); new=$$(mktemp -d $(BIN)/.new.XXXXXX); trap 'rm -rf "$$new"' EXIT; \
	  for f in $(patsubst cmd/%/,%,$(wildcard cmd/*/)); do [ ! -f $(BIN)/$$f ] || cp -p $(BIN)/$$f $$new/; done; \
	  $(BUILD) -ldflags "$(STAMP)" -o $$new/ ./cmd/...; \
	  for f in $$new/*; do cmp -s $$f $(BIN)/$${f##*/} || mv -f $$f $(BIN)/$${f##*/}; done

.PHONY: test
test: setup ## Run all tests but the scenarios over whole fleets (make e2e)
	go test -p 2 -timeout 20m $(TESTFLAGS) ./...

.PHONY: e2e
e2e: setup ## Run the scenarios over whole fleets
	@# The suite's own limit comes first, so that it says what failed and ends its fleets.
	go test -tags e2e -count 1 -timeout 58m -v $(TESTFLAGS) ./e2e/suites/... -ginkgo.timeout=55m

.PHONY: walk
walk: setup ## Follow README.md and the page about a canary in a fresh folder, and make five mistakes
	FLOTILLA_VERSION='$(VERSION)' go test -tags e2e -count 1 -timeout 20m -v $(TESTFLAGS) ./e2e/walk

# The version that is upgraded: the last tag before this commit, or a commit while there is none.
EARLIER ?= $(or $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null),0190e92)
.PHONY: upgrade-test
upgrade-test: setup ## Upgrade a hub and two members in the middle of a rollout; EARLIER=commit
	@earlier='$(EARLIER)'; e2e/upgrade/build.sh $(BIN) "$$earlier"; \
	  FLOTILLA_EARLIER="$(BIN)/upgrade-$$earlier" go test -tags e2e -count 1 -timeout 25m -v $(TESTFLAGS) ./e2e/upgrade

# The node image: unset is kind's own where docker runs, else one that e2e/kind/run.sh makes.
NODE_IMAGE ?=
.PHONY: e2e-kind
e2e-kind: images helm ## Run a hub and two members as kind clusters with real kubelets, by charts and images; NODE_IMAGE=name:tag
	@TESTFLAGS="$(TESTFLAGS)" e2e/kind/run.sh $(BIN) $(IMAGE_TAG) "$(NODE_IMAGE)"

.PHONY: bench
bench: setup ## Measure division, delivery and rollouts; BENCHFLAGS="-only rollout -sizes 500,5000" for more
	@go run ./e2e/bench -programs $(BIN) $(BENCHFLAGS)

.PHONY: faults
faults: setup ## Run the workload controllers behind a faulty API server; FAULTFLAGS="-for 30m -seed 7"
	@go run ./e2e/faults $(FAULTFLAGS)

.PHONY: hostile
hostile: setup ## Give a million malformed or hostile objects to decisions and webhooks, 20000 to a real hub; HOSTILEFLAGS="-seed 7"
	@go run ./e2e/hostile -programs $(BIN) $(HOSTILEFLAGS)

.PHONY: chaos
chaos: setup ## Break a fleet in every way and prove that the global limits hold; CHAOSFLAGS="-runs 3 -seed 7 -for 60s"
	@go run ./e2e/chaos $(CHAOSFLAGS)

.PHONY: nightly
nightly: setup ## Run simulations and properties with many seeds, faults, hostile objects, 20 runs of chaos, an upgrade: hours
	go test -count 1 -timeout 60m ./topology/division -run Properties -args -cases 5000000
	go test -count 1 -timeout 60m ./topology/lending -args -deep -runs 30000
	go test -count 1 -timeout 60m ./hub/decision -args -worlds 1000
	go test -count 1 -timeout 60m ./member-agent/workloads/cloneset -run TestSimulated -args -seeds 10000
	go test -count 1 -timeout 60m ./member-agent/workloads/statefulset -run 'TestSimulated|TestProperties' -args -seeds 10000
	go test -count 1 -timeout 60m ./member-agent/workloads/uniteddeployment -run TestOverTime -args -seeds 10000
	go test -count 1 -timeout 60m ./member-agent/workloads/workloadspread -run Simulated -args -seeds 10000
	$(MAKE) upgrade-test
	$(MAKE) faults hostile
	$(MAKE) chaos CHAOSFLAGS="-runs 20 -by-date -for 60s"

.PHONY: helm
helm:
	@[ -x $(BIN)/helm ] || echo "building helm (about 4 min of CPU the first time)"
	@mkdir -p $(BIN); cd e2e/tools/helm && CGO_ENABLED=0 go build -trimpath -mod=readonly -ldflags "-s -w" -o $(BIN)/helm helm.sh/helm/v4/cmd/helm

.PHONY: charts
charts: setup helm ## Lint and render the charts, and follow docs/install.md on three API servers
	go test -tags e2e -count 1 -timeout 25m $(TESTFLAGS) ./e2e/charts

.PHONY: restore
restore: setup ## Restore a hub from a backup under what runs, and install one anew, as docs/tasks/back-up-the-hub.md and survive-a-hub-outage.md say
	@e2e/tools/build.sh $(BIN) etcdctl etcdutl
	go test -tags e2e -count 1 -timeout 25m -v $(TESTFLAGS) ./e2e/restore

.PHONY: gitops
gitops: setup ## Hold what Argo CD and Flux read in workloads against what is so, in every phase
	@[ -x $(BIN)/gitops-health ] || echo "building what reads objects as Argo CD and Flux do (fetches 60 MB, about 1 min the first time)"
	@cd e2e/tools/gitops && CGO_ENABLED=0 go build -trimpath -mod=readonly -ldflags "-s -w" -o $(BIN)/gitops-health .
	cd e2e/tools/gitops && CGO_ENABLED=0 go test -mod=readonly ./...
	go test -tags e2e -count 1 -timeout 20m $(TESTFLAGS) ./e2e/gitops

.PHONY: page
page: ## Look at the page of flotilla dashboard with a headless Chromium, which this installs; SCREENSHOTS=docs/tasks writes its pictures
	@e2e/tools/chromium.sh
	go test -tags e2e -count 1 -timeout 5m -v $(TESTFLAGS) -run 'Page|Screenshots' ./cmd/flotilla/internal/dashboard $(if $(SCREENSHOTS),-args -screenshots $(abspath $(SCREENSHOTS)))

.PHONY: tracing
tracing: setup ## Follow a change of a workload by the traces that a hub and an agent send
	go test -tags e2e -count 1 -timeout 15m -v $(TESTFLAGS) ./e2e/tracing

.PHONY: capi
capi: setup ## Let clusters of Cluster API join, leave and get lost, with its own definitions on a real API server
	@cd e2e/tools/capi && go mod download sigs.k8s.io/cluster-api
	FLOTILLA_CAPI_CRDS=$$(cd e2e/tools/capi && go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core/config/crd/bases go test -tags e2e -count 1 -timeout 20m -v $(TESTFLAGS) ./e2e/capi

.PHONY: rotation
rotation: setup ## Renew a member's certificates under rollouts; ROTATIONFLAGS="-life 5m -for 30m" for longer
	go test -tags e2e -count 1 -timeout 60m -v ./e2e/rotation $(ROTATIONFLAGS)

# The architectures of the images, as Go names them; and the registry to push to, such as registry.example.org/team.
ARCH ?= $(shell go env GOARCH)
PUSH ?=
IMAGES := flotilla-hub,flotilla-agent,flotilla-capi,flotilla-node
.PHONY: images
images: programs ## Write the images to .images, load them into docker or podman if there is one; ARCH="amd64 arm64" PUSH=registry
	@folders=(); for arch in $(ARCH); do \
	  if [ $$arch = "$$(go env GOARCH)" ]; then folders+=($$arch=$(BIN)); continue; fi; \
	  echo "building the programs for $$arch"; mkdir -p $(BIN)/$$arch; \
	  GOARCH=$$arch $(BUILD) -ldflags "$(STAMP)" -o $(BIN)/$$arch/ ./cmd/flotilla-hub ./cmd/flotilla-agent ./cmd/flotilla-capi ./cmd/flotilla-node; \
	  folders+=($$arch=$(BIN)/$$arch); done; \
	  go run ./e2e/tools/images -out .images -push '$(PUSH)' -tag $(IMAGE_TAG) -version '$(VERSION)' \
	    -revision "$$(git rev-parse HEAD 2>/dev/null || true)" -programs $(IMAGES) "$${folders[@]}"
	@if tool=$$(command -v docker || command -v podman) && "$$tool" info > /dev/null 2>&1; then \
	  for file in .images/flotilla-{hub,agent,capi,node}.tar; do [ ! -f $$file ] || "$$tool" load --quiet --input $$file; done; fi
	@[ -n '$(PUSH)' ] || echo "push them with PUSH=registry.example.org/team, and give the charts --set image.registry=... --set image.tag=$(IMAGE_TAG)"

# Where a release is going to be downloaded from.
RELEASE_URL ?= https://github.com/flotilla-dev/flotilla/releases/download/$(VERSION)
RELEASE := $(CURDIR)/.release
.PHONY: release
release: programs helm ## Write a release to .release: archives, images, charts, bills of materials, checksums, a manifest for krew
	@rm -rf $(RELEASE); mkdir -p $(RELEASE) $(BIN)/release/completions
	@for shell in bash zsh fish powershell; do $(BIN)/flotilla completion $$shell > $(BIN)/release/completions/flotilla.$$shell; done
	@folders=(); for os in linux darwin; do for arch in amd64 arm64; do \
	  echo "building for $$os-$$arch"; mkdir -p $(BIN)/release/$$os-$$arch; \
	  programs=./cmd/flotilla; [ $$os = darwin ] || programs=./cmd/...; \
	  GOOS=$$os GOARCH=$$arch $(BUILD) -ldflags "$(STAMP)" -o $(BIN)/release/$$os-$$arch/ $$programs; \
	  folders+=($$os-$$arch=$(BIN)/release/$$os-$$arch); done; done; \
	go run ./e2e/tools/images -layouts $(RELEASE) -tag $(IMAGE_TAG) -version '$(VERSION)' \
	  -revision "$$(git rev-parse HEAD 2>/dev/null || true)" -programs $(IMAGES) \
	  amd64=$(BIN)/release/linux-amd64 arm64=$(BIN)/release/linux-arm64; \
	version='$(VERSION)'; for chart in charts/*/; do \
	  $(BIN)/helm package $$chart --version "$${version#v}" --app-version '$(IMAGE_TAG)' --destination $(RELEASE) > /dev/null; done; \
	go run ./e2e/tools/release -out $(RELEASE) -version '$(VERSION)' -url '$(RELEASE_URL)' \
	  -completions $(BIN)/release/completions "$${folders[@]}"

.PHONY: release-test
release-test: setup ## Check what make release wrote, and try it out from its archives alone
	FLOTILLA_RELEASE=$(RELEASE) go test -tags e2e -count 1 -timeout 15m -v $(TESTFLAGS) ./e2e/release

.PHONY: lint
lint: ## Run the linters
	@e2e/tools/build.sh $(BIN) golangci-lint
	@echo "linting"
	@$(BIN)/golangci-lint run ./...
	@$(BIN)/golangci-lint run --build-tags e2e ./e2e/...

.PHONY: verify
verify: verify-generated verify-modules verify-format lint ## Check generated files, modules, formatting and lint
	@echo "verified"

.PHONY: clean
clean: down ## Remove the try-out and everything that was built
	@rm -rf $(BIN) .images .kind .release

# A changed work tree is fine; what must not happen is that generating changes it.
.PHONY: verify-generated
verify-generated:
	@echo "checking that generated files are up to date"
	@state() { git ls-files -co --exclude-standard -- apis | git hash-object --stdin-paths; }; \
	before=$$(state | git hash-object --stdin); $(MAKE) generate; \
	if [ "$$before" != "$$(state | git hash-object --stdin)" ]; then \
	  git status --short -- apis >&2; echo "generated files were out of date: commit what \`make generate\` wrote" >&2; exit 1; fi

.PHONY: verify-modules
verify-modules:
	@echo "checking go.mod"
	@go mod tidy -diff || { echo "go.mod is not tidy: run \`go mod tidy\`" >&2; exit 1; }

.PHONY: verify-format
verify-format:
	@echo "checking formatting"
	@bad=$$(find . -name '*.go' -not -path './.*' | xargs gofmt -l); \
	if [ -n "$$bad" ]; then echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; fi >&2
