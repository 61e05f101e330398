# Three commands are all that a new machine needs: make tour (Go 1.26), make demo
# and make test (Debian or Ubuntu as root besides, for the lab). The rest serves
# development.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN := bin
KPLAN := $(BIN)/kplan
LAB := $(BIN)/kplan-lab
OPERATOR := $(BIN)/lab-operator
RIVALS := $(addprefix $(BIN)/,helm helm4 helmfile kapp)
IMAGE := kplan.dev/lab-operator:dev
# KPLAN_TEST_KUBECONFIG names a cluster of your own (kind, k3d, …) for demo and
# test; it needs the image $(IMAGE), see lab/README.md.
OWN := $(KPLAN_TEST_KUBECONFIG)
say = printf '\n==> %s\n' >&2
# go build that says how far it is. -work is the CPU time that a program takes with
# nothing in Go's cache: what the machine makes of it is told.
gobuild = cd lab && CGO_ENABLED=0 go run ./cmd/gobuild

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: tour
tour: $(KPLAN) ## Show a recorded run in the display; it takes no cluster, and of compilers Go's for kplan
	@$(say) 'the race of make demo, as it was recorded on a lab: p pauses, + and - change the speed, q leaves'
	$(KPLAN) replay lab/race/run.jsonl

.PHONY: demo
demo: build $(OPERATOR) ## Install examples/eso and the one-chart race on a lab of their own
ifeq ($(OWN),)
	@$(say) 'starting a Kubernetes cluster for the demo; the first time compiles it'
	$(LAB) down --name demo
	$(LAB) up --name demo
	$(LAB) load --name demo $(IMAGE) $(OPERATOR)
endif
	@$(say) 'External Secrets, its webhook, and the pull secrets that race with it'
	$(demo-env) $(KPLAN) run examples/eso/plan.yaml --var-file lab/eso.yaml
	@$(say) 'one chart with an operator, its webhooks and ten objects that they guard'
	$(demo-env) $(KPLAN) run lab/race/plan.yaml
ifeq ($(OWN),)
	@$(say) 'look around: $(LAB) --name demo kubectl get pods -A; take it down: $(LAB) down --name demo'
endif
demo-env = KUBECONFIG=$(if $(OWN),$(OWN),$$($(LAB) kubeconfig --name demo --path))

.PHONY: unit
unit: ## Run the tests that need nothing but Go: no cluster, nothing installed; it names what it leaves out
	@set -o pipefail; { go test -short -v ./... && cd lab && CGO_ENABLED=0 go test -short -v ./...; } 2>&1 | awk "$$BRIEF"

# BRIEF leaves of go test -v what failed, a line for each package with tests, and how many
# tests were left out for which reason.
define BRIEF
/^(=== |PASS$$|\?)/ || /^ *--- PASS/ || /\[no test files\]/ { next }
/^ok / { print; told = ""; next }
/^ +[a-z_]+\.go:[0-9]+: / { reason = $$0; sub(/^ +[a-z_]+\.go:[0-9]+: /, "", reason) }
/^ *--- SKIP/ { skipped[reason]++; told = ""; next }
/^FAIL|^---|^panic/ { printf "%s", told; told = ""; print; next }
{ told = told $$0 "\n" }
END { for (r in skipped) printf "left out %d tests: %s\n", skipped[r], r; print "make test runs them all" }
endef
export BRIEF

.PHONY: test
test: tell $(LAB) deps ## Run all tests: unit tests, and end-to-end tests on labs
ifeq ($(OWN),)
	@$(say) 'starting two Kubernetes clusters for the tests'
	trap 'for n in test test-cp test-match test-restart test-region test-export; do $(LAB) down --name $$n; done' EXIT; \
	$(LAB) up --name test && $(LAB) up --name test-cp --nodes 0 && $(MAKE) --no-print-directory go-test
else
	$(MAKE) --no-print-directory go-test
endif

# The race detector takes a C compiler; CI does not go without.
race = $(if $(CI)$(shell command -v gcc),-race)
# In CI the linter has run all that go test's own vet runs, over the same files.
vet = $(if $(CI),-vet=off)

# Half of what tests take is waiting: on two cores three packages run at once, the
# longest first, and three tests of each. They give way to the clusters that they use:
# nothing waits for an API server that has no processor. Scripts run the kplan that users get, and what
# bounds the time that bad plans take is run without the race detector. The linker that Go
# brings is faster than the C compiler's, which it would take for a library of ours.
.PHONY: go-test
go-test: $(KPLAN)
	@$(say) 'testing kplan$(if $(race), with the race detector); the first time compiles its libraries, some minutes'
	KPLAN=$(abspath $(KPLAN)) KPLAN_LAB=$(abspath $(LAB)) KPLAN_TOOLS=$(abspath $(BIN)) \
	nice -n 10 go test $(race) $(vet) -ldflags '-linkmode=internal -s -w' -p 3 -parallel 3 -timeout 40m ./cmd/kplan ./steps ./examples ./...
	$(if $(race),CGO_ENABLED=0 go test -trimpath $(vet) -run 'TestHostile' ./plan/load)
	@$(say) 'testing the lab, and what makes releases'
	cd lab && CGO_ENABLED=0 go test $(vet) -timeout 15m ./...
	cd tools/release && CGO_ENABLED=0 go test $(vet) ./...

.PHONY: matrix
matrix: $(LAB) ## Run the whole fault matrix: each fault at three moments of each operation
	KPLAN_LAB=$(abspath $(LAB)) go test ./steps -run 'TestFaultMatrix|TestStepsOutlast' -matrix -v -timeout 20m

.PHONY: fleet-kills
fleet-kills: $(LAB) ## Kill each of 40 workers of a fleet once, and 20 drivers, at moments of a seed (KPLAN_SEED)
	KPLAN_LAB=$(abspath $(LAB)) KPLAN_FLEET_KILLS=40 go test -count=1 -timeout 20m -v -run TestKilledWorkers ./fleet/engine/kubernetes
	KPLAN_LAB=$(abspath $(LAB)) KPLAN_FLEET_KILLS=20 go test -count=1 -timeout 20m -v -run TestKilledDrivers ./fleet/engine/kubernetes

# What tests need besides Go: a command that shows that it is there, Debian's packages
# for it, and what is left out without them.
DEPS := gcc tmux browser npm
gcc = gcc|gcc libc6-dev|the race detector
tmux = tmux|tmux|the tests of the display
browser = chromium|chromium fonts-dejavu-core|the tests of the HTML report in a browser
npm = npm|nodejs npm|the tests of the schema in an editor and of the JUnit report

.PHONY: deps
deps: $(DEPS) $(LAB) $(RIVALS) ## Install all that the tests need: gcc, tmux, Chromium, npm, the lab, Helm, helmfile and kapp
ifeq ($(OWN),)
	$(LAB) build
endif

.PHONY: tell
tell: $(LAB)
	@$(say) 'the tests need, and what is not there is installed first:'
	@tell() { IFS='|' read -r command packages tests <<<"$$1"; printf '  %-28s %-20s for %s\n' "$$packages" \
	"$$(command -v "$$command" >/dev/null && echo 'is there' || echo 'TO BE INSTALLED')" "$$tests" >&2; }; \
	$(foreach d,$(DEPS),tell '$($(d))';)
	@$(foreach t,$(RIVALS),test -e $(t) || echo 'to be built: $(notdir $(t))' >&2;)
ifeq ($(OWN),)
	@$(LAB) build --dry-run >&2
endif

# $(call install,COMMAND|PACKAGES|TESTS): Debian's packages for a command that is not there.
define install
@IFS='|' read -r command packages tests <<<'$(1)'; command -v "$$command" >/dev/null || \
{ $(say) "installing $$command"; apt="apt-get install -qy --no-install-recommends $$packages"; $$apt || { apt-get update -q && $$apt; }; } || \
$(say) "without $$command, left out: $$tests"
endef

.PHONY: gcc
gcc: ## Install a C compiler, for the race detector (Debian or Ubuntu as root)
	$(call install,$(gcc))

.PHONY: tmux
tmux: ## Install tmux, in which tests drive the display (Debian or Ubuntu as root)
	$(call install,$(tmux))

.PHONY: browser
browser: ## Install Chromium, in which tests open the HTML report (Debian or Ubuntu as root)
	$(call install,$(browser))

.PHONY: npm
npm: ## Install npm, which fetches an editor's language server and a validator for tests (Debian or Ubuntu as root)
	$(call install,$(npm))

shellcheck = shellcheck|shellcheck|the check of shell scripts
.PHONY: shellcheck
shellcheck: ## Install shellcheck, for make lint (Debian or Ubuntu as root)
	$(call install,$(shellcheck))

.PHONY: build
build: $(KPLAN) $(LAB) ## Build kplan and the lab's command

# Go decides what is stale. All of the lab is compiled with the same flags, by linter,
# tests and builds: then Go's cache has each package once.
.PHONY: $(KPLAN) $(LAB) $(OPERATOR)
$(KPLAN):
	@$(gobuild) -work 4m -C .. -o $@ ./cmd/kplan -trimpath -ldflags '-s -w'
$(LAB):
	@$(gobuild) -o ../$@ ./cmd/kplan-lab
$(OPERATOR):
	@$(gobuild) -o ../$@ ./operator -ldflags '-s -w'

.PHONY: bench
bench: $(LAB) $(OPERATOR) ## Measure how long after the floor objects are admitted (30 installs)
ifeq ($(OWN),)
	@$(say) 'starting a Kubernetes cluster for the benchmark; the first time compiles it'
	trap '$(LAB) down --name bench' EXIT; \
	$(LAB) up --name bench && $(LAB) load --name bench $(IMAGE) $(OPERATOR) && \
	KPLAN_TEST_KUBECONFIG=$$($(LAB) kubeconfig --name bench --path) $(MAKE) --no-print-directory go-bench
else
	$(MAKE) --no-print-directory go-bench
endif

BENCH := -benchtime 30x -update
.PHONY: go-bench
go-bench:
	@$(say) 'measuring; 30 installs take about 6 minutes'
	go test ./bench -run '^$$' -bench Admission -timeout 60m $(BENCH)

.PHONY: bench-phases
bench-phases: $(LAB) $(OPERATOR) $(BIN)/helm $(BIN)/kapp ## Measure each fault phase of a webhook, beside plain Helm and kapp
	@$(say) 'starting a Kubernetes cluster for the benchmark; the first time compiles it'
	trap '$(LAB) down --name phases' EXIT; \
	$(LAB) up --name phases --audit && $(LAB) load --name phases $(IMAGE) $(OPERATOR) && \
	$(say) 'measuring ten phases; takes some 30 minutes' && \
	PATH=$(abspath $(BIN)):$$PATH go test ./bench -run '^$$' -bench Phases -timeout 90m -lab phases $(PHASES)
PHASES := -benchtime 4x -rivals 1 -update

.PHONY: bench-race
bench-race: $(LAB) $(OPERATOR) $(RIVALS) $(BIN)/helm-controller ## Let kplan, Helm 3 and 4, helmfile, kapp and Flux race with one chart's webhook
	@$(say) 'starting a Kubernetes cluster for the benchmark; the first time compiles it'
	trap '$(LAB) down --name race' EXIT; \
	$(LAB) up --name race --audit && $(LAB) load --name race $(IMAGE) $(OPERATOR) && \
	$(say) 'measuring two races with eight tools; takes some 25 minutes' && \
	PATH=$(abspath $(BIN)):$$PATH go test ./bench -run '^$$' -bench Race -timeout 90m -lab race $(RACE)
RACE := -benchtime 2x -update

.PHONY: bench-helm
bench-helm: $(LAB) $(RIVALS) ## Measure installs, upgrades and runs with nothing to do, beside Helm 3, Helm 4 and helmfile
	@$(say) 'starting a Kubernetes cluster for the benchmark; the first time compiles it'
	trap '$(LAB) down --name test-cp' EXIT; \
	KPLAN_LAB=$(abspath $(LAB)) KPLAN_TOOLS=$(abspath $(BIN)) go test ./bench -run '^$$' -bench Helm -timeout 90m $(HELM)
HELM := -benchtime 5x -update

.PHONY: bench-fleet
bench-fleet: $(LAB) ## Measure one plan on a thousand clusters, with and without faults
	@$(say) 'starting a Kubernetes cluster for the benchmark; the first time compiles it'
	trap '$(LAB) down --name fleet' EXIT; \
	$(LAB) up --name fleet --nodes 0 && \
	$(say) 'measuring; takes some 10 minutes' && \
	KPLAN_TEST_KUBECONFIG=$$($(LAB) kubeconfig --name fleet --path) go test ./bench -run '^$$' -bench Fleet -timeout 60m $(FLEET)
FLEET := -benchtime 1x

# Other tools, which tests run by kplan hold and benchmarks compare with. The tag
# leaves the clouds' SDKs out of helmfile, which take three minutes to compile.
$(BIN)/helm: package := helm.sh/helm/v3/cmd/helm
$(BIN)/helm4: package := helm.sh/helm/v4/cmd/helm
$(BIN)/helmfile: package := github.com/helmfile/helmfile
$(BIN)/kapp: package := carvel.dev/kapp/cmd/kapp
$(RIVALS): bench/rivals/go.mod bench/rivals/go.sum
	@$(gobuild) -C ../bench/rivals -o ../../$@ $(package) -trimpath -tags custom_providers -ldflags '-s -w'
# Flux's controller is in no test; it wants versions of libraries that the others do not.
$(BIN)/helm-controller: bench/rivals/flux/go.mod bench/rivals/flux/go.sum
	@$(gobuild) -C ../bench/rivals/flux -o ../../../$@ github.com/fluxcd/helm-controller -trimpath -ldflags '-s -w'

# The linter reads what the compiler writes for the tests and for the lab: compiled
# once, it serves both.
.PHONY: lint
lint: gcc shellcheck $(BIN)/golangci-lint ## Check style and the import rules
	GOFLAGS='$(strip $(GOFLAGS) $(race))' $(BIN)/golangci-lint run ./...
	cd lab && CGO_ENABLED=0 ../$(BIN)/golangci-lint run --config ../.golangci.yaml ./...
	cd tools/release && CGO_ENABLED=0 ../../$(BIN)/golangci-lint run --config ../../.golangci.yaml ./...
	go mod tidy -diff
	cd lab && go mod tidy -diff
	if command -v shellcheck; then git ls-files '*.sh' .ci packaging | xargs shellcheck; fi

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@$(say) 'building the linter, two minutes of CPU time'
	cd tools && CGO_ENABLED=0 go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# What packages have besides the binary: man pages and completions, in bin/share.
.PHONY: share
share:
	rm -rf $(BIN)/share
	CGO_ENABLED=0 go build -trimpath -buildvcs=true -ldflags '-s -w' -o $(BIN)/share/kplan ./cmd/kplan
	$(BIN)/share/kplan man $(BIN)/share
	gzip -9n $(BIN)/share/man/*.1
	rm $(BIN)/share/kplan

RELEASE := $(addprefix $(BIN)/,goreleaser sbom image)
# Another version of Go writes other files: the one that go.mod names makes releases,
# and is fetched where it is not the one that is installed.
$(RELEASE) share snapshot release: export GOTOOLCHAIN := $(shell awk '$$1 == "toolchain" { print $$2 }' tools/release/go.mod)
$(BIN)/goreleaser: package := github.com/goreleaser/goreleaser/v2
$(BIN)/sbom: package := ./sbom
$(BIN)/image: package := ./image
$(BIN)/host: package := ./host
$(BIN)/sbom $(BIN)/image $(BIN)/host: $(wildcard tools/release/*/*.go)
$(RELEASE) $(BIN)/host: tools/release/go.mod tools/release/go.sum
	@$(if $(findstring goreleaser,$@),$(say) 'building goreleaser: six minutes of CPU time')
	cd tools/release && CGO_ENABLED=0 go build -o ../../$@ -ldflags '-s -w' $(package)

.PHONY: release-config
release-config: $(BIN)/goreleaser ## Check the configuration of releases
	$(BIN)/goreleaser check

# TARGETS='linux_amd64|linux_arm64' builds these alone: a platform takes four minutes of
# CPU time with nothing in Go's cache.
TARGETS := linux|darwin|windows
.PHONY: snapshot
snapshot: $(RELEASE) ## Make all files of a release in dist, of this commit and without the network; TARGETS picks platforms
	@$(say) 'making the files of $(if $(tag),the release $(tag),a snapshot)'
	sed -E '/^      - (linux|darwin|windows)_/{/$(TARGETS)/!d}' .goreleaser.yaml > $(BIN)/goreleaser.yaml
	$(remote) $(BIN)/goreleaser release -f $(BIN)/goreleaser.yaml $(if $(tag),--skip=publish,--snapshot) --clean --skip=sign
	tools/release/manifests.sh dist
	$(MAKE) --no-print-directory release-image

.PHONY: release
release: $(RELEASE) # of the tag at HEAD, as a draft; .github/workflows/release.yml does it
	$(BIN)/goreleaser release --clean

# Of a commit with a tag, the files are those of its release; else their version says that
# they are none.
tag = $(shell git tag --points-at HEAD --list 'v*')
# goreleaser takes no commit of a repository without a remote, and asks none here.
remote = GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/kplan-dev/kplan
# linux is OS/ARCH=BINARY for each Linux binary that goreleaser made.
linux = $(foreach b,$(wildcard dist/kplan_linux_*/kplan),linux/$(word 3,$(subst _, ,$(notdir $(patsubst %/kplan,%,$b))))=$b)
.PHONY: release-image
release-image: $(BIN)/image ## Make the container image of the binaries in dist; IMAGE_FLAGS='--push REPOSITORY --tag TAG' pushes it
	$(BIN)/image --version v$$(jq -r .version dist/metadata.json) --revision $$(git rev-parse HEAD) \
	--created $$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) --out dist/image $(IMAGE_FLAGS) $(linux) | tee dist/image.digest

.PHONY: release-check
release-check: $(RELEASE) ## Make the release of this commit twice, in two folders, and compare the checksums
	tools/release/twice.sh '$(TARGETS)'

.PHONY: try-release
try-release: $(BIN)/host $(LAB) $(OPERATOR) ## Install what is in dist on a bare Debian, as documented, and run a plan by archive, deb and image (root; debootstrap, jq)
ifeq ($(OWN),)
	@$(say) 'starting a Kubernetes cluster for the trial; the first time compiles it'
	trap '$(LAB) down --name try' EXIT; \
	$(LAB) up --name try && $(LAB) load --name try $(IMAGE) $(OPERATOR) && tools/release/try.sh dist "$$($(LAB) kubeconfig --name try --path)" $(TRY)
else
	tools/release/try.sh dist $(OWN) $(TRY)
endif

.PHONY: fuzz
fuzz: ## Run each fuzz target for a minute (FUZZTIME)
	tools/fuzz.sh $(FUZZTIME)
FUZZTIME := 60s

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what kplan calls (VULNDB names a copy of the database)
	tools/vulncheck.sh

.PHONY: golden
golden: ## Write the tests' expected output anew
	go generate ./schema
	go test ./plan/load ./runner ./cmd/kplan/... -update

# The documentation's site. It takes npm ci in site, once; after that nothing is fetched.
SITE_BASE := /
.PHONY: site
site: $(KPLAN) ## Build the documentation's site in site/dist; SITE_BASE=/kplan/ is where it will stand, SITE_FLAGS=--tags has all versions
	cd site && KPLAN=$(KPLAN) npm run -s build -- --base $(SITE_BASE) $(SITE_FLAGS)

.PHONY: site-test
site-test: ## Open all pages of site/dist in Chromium, with the SITE_BASE that they were built with
	cd site && SITE_BASE=$(SITE_BASE) CHROMIUM=$(CHROMIUM) npm test
CHROMIUM := /usr/bin/chromium

.PHONY: clean
clean: ## Take the labs down and remove what was built
	for n in demo test test-cp test-match test-restart test-region test-export bench phases race fleet try; do $(LAB) down --name $$n || true; done
	rm -rf $(BIN) site/dist
