# Naupegos: the two commands are `make demo` and `make test`.
SHELL := /bin/bash
export GOTOOLCHAIN ?= auto
# What is compiled in one clone is used in the next.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)
NAUPEGOS := bin/naupegos
# internal/release says which releases there are.
DEFAULT_KUBERNETES := $(shell sed -n 's/^const Default = "\(.*\)"$$/\1/p' internal/release/release.go)
ALL_KUBERNETES := $(shell sed -n 's/^\t\t{"\(v[0-9.]*\)", .*/\1/p' internal/release/release.go)

# The newest release of another minor: the end-to-end tests upgrade from it.
FORMER_KUBERNETES := $(firstword $(filter-out $(basename $(DEFAULT_KUBERNETES)).%,$(ALL_KUBERNETES)))

# And that of the minor before: make test-full upgrades from it over two minors.
EARLIER_KUBERNETES := $(firstword $(filter-out $(basename $(DEFAULT_KUBERNETES)).% $(basename $(FORMER_KUBERNETES)).%,$(ALL_KUBERNETES)))

.PHONY: help build setup setup-test demo test test-full static unit race race-all integration e2e e2e-local e2e-ha e2e-kill e2e-metal e2e-openstack openstack \
	bundle bundle-former bundle-earlier bundle-openstack bundles bench-boot bench-local bench-openstack bench-upgrade openstack-up openstack-down demo-openstack demo-metal e2e-metal-full \
	image images test-image test-openstack test-calls calls test-bed bed on-bed bed-started off-bed lint docs pictures install uninstall deb clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# As bundles are compiled (internal/bundle, fixedEnv), so that the standard library is compiled once.
GO_BUILD = CGO_ENABLED=0 GOGC=400 go build -trimpath -gcflags=all=-dwarf=false

build: ## bin/naupegos and bin/naupegos-agent
	@mkdir -p bin
	$(GO_BUILD) -ldflags '-s -w -X github.com/naupegos/naupegos/internal/cli.version=$(VERSION)' -o bin/naupegos ./cmd/naupegos
	$(GO_BUILD) -ldflags '-s -w' -o bin/naupegos-agent ./cmd/naupegos-agent

setup:
	@hack/setup demo

bundle: build ## the bundle of the newest Kubernetes release
	@$(call phase,bundle) $(NAUPEGOS) bundle build --kubernetes $(DEFAULT_KUBERNETES)

bundle-former: build
	@$(call phase,bundle-former) $(NAUPEGOS) bundle build --kubernetes $(FORMER_KUBERNETES)

bundle-earlier: build
	@$(call phase,bundle-earlier) $(NAUPEGOS) bundle build --kubernetes $(EARLIER_KUBERNETES)

bundle-openstack: build ## the same, with the addons of OpenStack
	@$(call phase,bundle-openstack) $(NAUPEGOS) bundle build --kubernetes $(DEFAULT_KUBERNETES) --addons openstack $(if $(NAUPEGOS_FULL),--kubernetes $(FORMER_KUBERNETES))

bundles: build ## bundles of every Kubernetes release that there is a recipe for
	$(NAUPEGOS) bundle build $(addprefix --kubernetes ,$(ALL_KUBERNETES))

demo: setup build ## a real, highly available cluster on this machine, from nothing
	$(SUDO) $(NAUPEGOS) apply -f examples/local.yaml --yes

# The OpenStack test bed needs Debian 12: what of the tests needs it is left out elsewhere.
BED := $(shell . /etc/os-release 2>/dev/null; [ "$$ID $$VERSION_ID" != "debian 12" ] || echo yes)
BED_BUNDLE := $(if $(BED),bundle-openstack)

# bin/tiers runs a command, keeps what it came to for the report, and says which of its tests were slowest, and why some failed. -budget
# is what a tier takes on a slow day of two processors, warm; a longer one is marked. -within is how long after its start a tier begins
# with what takes minutes.
bin/tiers: $(wildcard hack/tiers/*.go)
	@mkdir -p bin
	@go build -o $@ ./hack/tiers

TIER = bin/tiers run
GO_TEST = go test -json$(if $(NAUPEGOS_FULL), -timeout $(LIMIT))
phase = $(if $(TIMED),$(TIER) -makes $(1))

# What make test runs, in this order, and the names under which it is reported. Of the two largest, chance says which comes first: a slow host may
# have no time for the other one. Machines that are emulated come last, where there is time for them.
BEGAN := $(shell date +%s)
CLUSTERS = $(if $(filter 1,$(shell expr $(or $(SEED),$(BEGAN)) % 2)),$(if $(BED),on-bed,off-bed) e2e-local,e2e-local $(if $(BED),on-bed,off-bed))
TEST_GOALS = static unit race build bundle bundle-former $(BED_BUNDLE) integration $(CLUSTERS) e2e-metal
TEST_NAMES = static unit race integration e2e $(if $(BED),openstack e2e-openstack) e2e-metal

# The minutes of tests after which make test begins with nothing any more that takes long: on a slow host it runs less, and says what it leaves
# out. Bundles that it has to compile are beside that, but nothing begins later than LATEST.
TIME := 62
SLOW := $(if $(filter command line,$(origin TIME)),$(TIME),36)
LATEST := 62

test: ## every tier of tests, with all set-up; SEED=7 repeats random choices, TIME=120 gives it two hours
	@hack/setup test
	@$(MAKE) --no-print-directory bin/tiers
	@bin/tiers begin -began $(BEGAN) -tests $(TIME)m -slow $(SLOW)m -latest $(LATEST)m
	-@$(MAKE) --no-print-directory --keep-going TIMED=yes ONCE=yes $(TEST_GOALS)
	@bin/tiers report $(TEST_NAMES)

FULL_GOALS = $(subst bundle-former,bundle-former bundle-earlier,$(subst race,race-all lint,$(subst e2e-local,e2e-local e2e-ha e2e-kill,$(TEST_GOALS)))) $(if $(BED),calls bed) images
FULL_NAMES = $(subst race,race lint,$(subst integration e2e,integration e2e e2e-ha e2e-kill,$(TEST_NAMES))) $(if $(BED),calls bed) image e2e-image

# Run again, make test-full goes on with the tiers that have not passed yet for what is committed.
test-full: export NAUPEGOS_TEST_TREE := $(shell [ -n "$$(git status --porcelain 2>&1)" ] || git rev-parse 'HEAD^{tree}')
test-full: export NAUPEGOS_FULL := 1
test-full: ## the same with all that make test samples, and the tests that it leaves out: hours; run again, it is resumed
	@hack/setup test
	@hack/setup test-image
	@$(MAKE) --no-print-directory bin/tiers
	@bin/tiers forget
	@bin/tiers note set-up $$(($$(date +%s) - $(BEGAN)))
	-@$(MAKE) --no-print-directory --keep-going TIMED=yes EVERY=1 $(FULL_GOALS)
	@bin/tiers report $(FULL_NAMES)

ifdef SEED
export NAUPEGOS_SEED := $(SEED)
endif

setup-test:
	@hack/setup test

static: bin/tiers ## gofmt, vet of all tags, the agent for arm64; no root
	@$(TIER) -budget 2m static hack/static

unit: bin/tiers ## seconds, no root
	@$(TIER) -budget 2m unit $(GO_TEST) $(if $(ONCE),$(SEQUENTIAL),./...)

# The packages that start goroutines, but for internal/cli: its scripts start the command 450 times, which takes a second each with the race
# detector; make test-full does it.
CONCURRENT = $(filter-out ./internal/cli,$(shell grep -rlE '\bgo func|errgroup\.|sync\.WaitGroup|\.Go.func' --include='*.go' --exclude='*_test.go' --exclude-dir=recipes internal api cmd test | xargs -n1 dirname | sort -u | sed 's,^,./,'))

# The others: make test runs each package's unit tests once.
SEQUENTIAL = $(filter-out $(CONCURRENT),$(shell go list ./... | sed 's,^github.com/naupegos/naupegos,.,'))

# A program built with the race detector sleeps for a second before it exits: each test binary, and each command that a script runs.
race race-all: export GORACE ?= atexit_sleep_ms=20
race-all: export NAUPEGOS_FULL := # in many times the time it would find nothing more

race: bin/tiers ## the unit tests of packages that start goroutines, with the race detector; no root
	@$(TIER) -budget 3m race $(GO_TEST) -race $(CONCURRENT)

race-all: bin/tiers
	@$(TIER) race $(GO_TEST) -race ./...

# files, packages and tests behind a build tag, which is a regular expression. Tests without a tag are no business of a tier but unit's.
files = $(shell grep -rlE '^//go:build $(1)' --include='*_test.go' internal api cmd bench hack test)
tagged = $(sort $(patsubst %/,./%,$(dir $(call files,$(1)))))
tests = '^($(shell grep -hoE '^func Test\w+.t \*testing\.T' $(call files,$(1)) | sed 's,^func ,,; s,\W.*,,' | sort -u | paste -sd '|'))$$'
AS_ROOT = $(SUDO) env "PATH=$$PATH"
# How long one test binary may take.
LIMIT = $(if $(NAUPEGOS_FULL),4h,1h)

# Packages that have tests with real servers on loopback; two at a time, for most of their time they wait. -count=1: of the servers that a
# test runs against, go's cache of test results knows nothing.
integration: build bundle bin/tiers ## real servers on loopback, real machines (root)
	@$(TIER) -budget 6m integration $(AS_ROOT) $(GO_TEST) -tags integration -count=1 -p 2 -timeout $(LIMIT) -run $(call tests,integration) $(call tagged,integration)

pictures: ## the pictures of the web pages in docs, taken again (root, Chromium)
	$(AS_ROOT) NAUPEGOS_SCREENSHOTS=$(CURDIR)/docs/images go test -tags integration -count=1 -run '^TestEveryPage$$' ./internal/web

E2E = $(GO_TEST) -tags e2e -count=1 -timeout $(LIMIT) ./test/e2e
ON_CLOUD = ^TestOpenStack
ON_RACK = ^Test(Install|Metal)
# What takes longest, in tiers of its own where make test-full is resumed.
UPGRADED = ^Test(HA|Minors)$$
KILLED = ^TestKill

e2e: build bundle bundle-former $(BED_BUNDLE) bin/tiers ## real machines and clusters (root)
	@$(TIER) -v e2e $(AS_ROOT) $(E2E)

e2e-local: build bundle bundle-former bin/tiers
	@$(if $(TIMED),bin/tiers time -need 8m e2e || exit 0;) $(TIER) -v -budget 20m -within 22m e2e $(AS_ROOT) $(E2E) -skip '$(ON_CLOUD)|$(ON_RACK)$(if $(NAUPEGOS_FULL),|$(UPGRADED)|$(KILLED))'

e2e-ha: build bundle bundle-former bundle-earlier bin/tiers
	@$(TIER) -v e2e-ha $(AS_ROOT) $(E2E) -run '$(UPGRADED)'

e2e-kill: build bundle bin/tiers
	@$(TIER) -v e2e-kill $(AS_ROOT) $(E2E) -run '$(KILLED)'

e2e-openstack: bin/tiers
	@$(TIER) -v -budget 8m e2e-openstack $(AS_ROOT) $(E2E) -run '$(ON_CLOUD)'

e2e-metal: build bundle bin/tiers
	@$(TIER) -v -budget 20m e2e-metal $(AS_ROOT) $(E2E) -run '$(ON_RACK)' $(if $(NAUPEGOS_FULL),,-timeout 35m)

# test/openstack/bed restarts the services under the feet of the others. CALLS take minutes, and another choice of calls each time.
ON_BED = $(AS_ROOT) go run ./test/openstack run
CLOUD_TAGS = (.*\|\| |integration && )?openstack
CALLS = '^TestEveryCallOnTheRealServices$$'

# The bed is started once for both tiers, and is afterwards as it was before. Not $(MAKE): that would start it in a dry run, too.
on-bed: build bundle-openstack bin/tiers
	@$(if $(TIMED),bin/tiers time -need 14m openstack e2e-openstack || exit 0;) $(ON_BED) make --no-print-directory --keep-going TIMED=$(TIMED) BED_BEGAN=$$(date +%s) bed-started openstack e2e-openstack

bed-started:
	@bin/tiers note bed-start $$(($$(date +%s) - $(BED_BEGAN)))

off-bed:
	@echo "skipped: the tests of make test-openstack need Debian 12"

openstack: bin/tiers
	@$(TIER) -budget 7m openstack $(AS_ROOT) $(GO_TEST) -tags integration,openstack -count=1 -p 2 -timeout $(LIMIT) -skip $(CALLS) -run $(call tests,$(CLOUD_TAGS)) $(filter-out ./test/openstack/bed,$(call tagged,$(CLOUD_TAGS)))

test-openstack: setup-test build bundle-openstack bin/tiers ## tests against a real OpenStack on this machine (root, Debian 12)
	@hack/setup openstack
	@$(ON_BED) make --no-print-directory openstack

test-calls: setup-test calls ## calls to that OpenStack that go wrong in turn, one of twelve; EVERY=1: all of them (root, Debian 12)
calls: build bin/tiers
	@hack/setup openstack
	@$(TIER) -v calls $(ON_BED) $(GO_TEST) -tags openstack -count=1 -run $(CALLS) -timeout 3h ./internal/provider/openstack $(if $(EVERY),-every $(EVERY))

test-bed: setup-test bed ## the test of that OpenStack itself, which it restarts: nobody else may use it meanwhile (root, Debian 12)
bed: bin/tiers
	@hack/setup openstack
	@$(TIER) bed $(ON_BED) $(GO_TEST) -tags openstack -count=1 -timeout 60m ./test/openstack/bed

bench-local: build bundle ## naupegos against bare kubeadm, side by side
	$(AS_ROOT) go run ./bench/local

openstack-up: ## a real OpenStack on this machine, from Debian's packages (root)
	@hack/setup openstack
	$(AS_ROOT) go run ./test/openstack up

OPENSTACK := $(or $(NAUPEGOS_OPENSTACK_ROOT),/var/lib/naupegos/openstack)

demo-openstack: setup bundle-openstack openstack-up ## a real cluster on that OpenStack, through Octavia, with its cloud controllers (root)
	$(AS_ROOT) go run ./test/openstack machines --kubernetes $(DEFAULT_KUBERNETES)
	$(SUDO) env OS_CLIENT_CONFIG_FILE=$(OPENSTACK)/clouds.yaml $(NAUPEGOS) apply -f examples/openstack.yaml --yes

openstack-down: ## stop it; PURGE=1 forgets its state too
	$(AS_ROOT) go run ./test/openstack down $(if $(PURGE),--purge)

# Not go run, which fails whenever it is interrupted.
demo-metal: setup-test bundle ## two emulated machines become a cluster; prints where the server's pages are (root; slow: they are emulated)
	go build -o bin/demo-metal ./test/rack/demo
	$(AS_ROOT) bin/demo-metal -kubernetes $(DEFAULT_KUBERNETES)

e2e-metal-full: build bundle bin/tiers ## a cluster whose control plane and worker are emulated machines; one is installed again (root)
	@$(TIER) -v e2e-metal-full env NAUPEGOS_FULL=1 $(AS_ROOT) $(GO_TEST) -tags e2e -count=1 -run '^TestMetalFull$$' -timeout 4h ./test/e2e

bench-boot: build ## the boot endpoints against matchbox, side by side: two minutes, no root
	go run ./bench/boot $(BENCH)

bench-upgrade: build bundle bundle-former ## naupegos upgrade against kubeadm upgrade, side by side
	$(AS_ROOT) go run ./bench/upgrade

bench-openstack: openstack-up ## naupegos against OpenTofu on a real OpenStack, side by side
	$(AS_ROOT) go run ./bench/openstack $(BENCH)

image: build ## a bootable disk image of machines with the bundle inside (root)
	@hack/setup image
	$(SUDO) $(NAUPEGOS) image build --kubernetes $(DEFAULT_KUBERNETES)

test-image: setup-test images ## make an image, boot it on emulated computers, and a cluster on OpenStack from it: minutes (root)
images: build bundle $(BED_BUNDLE) bin/tiers
	@hack/setup test-image
	@$(TIER) -v image $(AS_ROOT) $(GO_TEST) -tags image -count=1 -timeout 60m ./internal/image
	@$(TIER) -v e2e-image $(AS_ROOT) $(GO_TEST) -tags e2e,image -count=1 -run '^TestOwnImage$$' -timeout 60m ./test/e2e

TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/naupegos/tools
LINT := $(TOOLS)/golangci-lint-v2.15.0

$(LINT):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

lint: $(LINT) ## golangci-lint, with the house's import rules
	@$(call phase,lint) $(LINT) run

docs: ## regenerate what docs/reference takes from the code
	go run ./hack/docs

PREFIX ?= /usr/local
BINDIR = $(DESTDIR)$(PREFIX)/bin
MANDIR = $(DESTDIR)$(PREFIX)/share/man/man1
SHAREDIR = $(DESTDIR)$(PREFIX)/share
COMPLETIONS = $(SHAREDIR)/bash-completion/completions/naupegos $(SHAREDIR)/zsh/site-functions/_naupegos $(SHAREDIR)/fish/vendor_completions.d/naupegos.fish

install: build ## the programs, man pages and shell completion, to $(PREFIX); PREFIX=… for another place
	install -D -m 755 -t $(BINDIR) bin/naupegos bin/naupegos-agent
	go run ./hack/docs -man $(MANDIR)
	install -d $(dir $(COMPLETIONS))
	$(NAUPEGOS) completion bash > $(word 1,$(COMPLETIONS))
	$(NAUPEGOS) completion zsh > $(word 2,$(COMPLETIONS))
	$(NAUPEGOS) completion fish > $(word 3,$(COMPLETIONS))

uninstall: ## remove what make install wrote
	rm -f $(BINDIR)/naupegos $(BINDIR)/naupegos-agent $(MANDIR)/naupegos.1 $(MANDIR)/naupegos-*.1 $(COMPLETIONS)

deb: ## a Debian package of the programs and the server's unit, in dist/
	rm -rf dist/tree
	@$(MAKE) --no-print-directory install DESTDIR=dist/tree PREFIX=/usr
	@hack/deb dist/tree '$(VERSION)' dist

clean: ## remove what was built (caches outside the clone stay)
	rm -rf bin dist .evidence
