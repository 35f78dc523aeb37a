# Naupegos: the two commands are `make demo` and `make test`.
SHELL := /bin/bash
export GOTOOLCHAIN ?= auto
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)
NAUPEGOS := bin/naupegos
DEFAULT_KUBERNETES := v1.36.3

.PHONY: help build setup setup-test demo test unit integration e2e bundle bundle-openstack bundles bench-local bench-openstack openstack-up openstack-down demo-openstack image test-image test-openstack test-calls test-bed on-bed off-bed lint docs clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## bin/naupegos and bin/naupegos-agent
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X github.com/naupegos/naupegos/internal/cli.version=$(VERSION)' -o bin/naupegos ./cmd/naupegos
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/naupegos-agent ./cmd/naupegos-agent

setup:
	@hack/setup demo

bundle: build ## the bundle of the newest Kubernetes release
	$(NAUPEGOS) bundle build --kubernetes $(DEFAULT_KUBERNETES)

bundle-openstack: build ## the same, with the addons of OpenStack
	$(NAUPEGOS) bundle build --kubernetes $(DEFAULT_KUBERNETES) --addons openstack

bundles: build ## bundles of both Kubernetes minors
	$(NAUPEGOS) bundle build --kubernetes v1.36.3
	$(NAUPEGOS) bundle build --kubernetes v1.35.4

demo: setup build ## a real, highly available cluster on this machine, from nothing
	$(SUDO) $(NAUPEGOS) apply -f examples/local.yaml --yes

# The OpenStack test bed needs Debian 12: what of the tests needs it is left out elsewhere.
BED := $(shell . /etc/os-release 2>/dev/null; [ "$$ID $$VERSION_ID" != "debian 12" ] || echo yes)
BED_BUNDLE := $(if $(BED),bundle-openstack)

test: setup-test build bundle $(BED_BUNDLE) unit integration $(if $(BED),on-bed,off-bed e2e) ## every tier of tests, with all set-up

# The bed is started once for both tiers, and is afterwards as it was before.
on-bed: build bundle-openstack
	$(ON_BED) sh -c '$(TEST_OPENSTACK) && $(E2E)'

off-bed:
	@echo "skipped: the tests of make test-openstack need Debian 12"

setup-test:
	@hack/setup test

unit: ## seconds, no root
	go vet ./...
	go test ./...

# Packages that have tests with real servers on loopback; two at a time, for most of their time they wait. -count=1: of the servers that a
# test runs against, go's cache of test results knows nothing.
tagged = $(shell grep -rlE '^//go:build $(1)' --include='*_test.go' internal api cmd bench test | xargs -n1 dirname | sort -u | sed 's,^,./,')
AS_ROOT = $(SUDO) env "PATH=$$PATH"
INTEGRATION = $(call tagged,integration)

integration: build ## real servers on loopback (root)
	$(AS_ROOT) go test -tags integration -count=1 -p 2 -timeout 30m $(INTEGRATION)

E2E = hack/retell go test -tags e2e -count=1 -timeout 60m -v ./test/e2e

e2e: build ## real machines and clusters (root)
	$(AS_ROOT) $(E2E)

# test/openstack/bed restarts the services under the feet of the others. CALLS take minutes, and another choice of calls each time.
ON_BED = $(AS_ROOT) go run ./test/openstack run
OPENSTACK_TESTS = $(filter-out ./test/openstack/bed,$(call tagged,(.*\|\| )?openstack))
CALLS = ^TestEveryCallOnTheRealServices$$
TEST_OPENSTACK = go test -tags openstack -count=1 -p 2 -skip $(CALLS) -timeout 30m $(OPENSTACK_TESTS) && \
	go test -tags integration,openstack -count=1 -run ^TestOpenStackAddons$$ -timeout 30m ./internal/bundle

test-openstack: setup-test build bundle-openstack ## tests against a real OpenStack on this machine (root, Debian 12)
	@hack/setup openstack
	$(ON_BED) sh -c '$(TEST_OPENSTACK)'

test-calls: setup-test ## calls to that OpenStack that go wrong in turn, one of twelve; EVERY=1: all of them (root, Debian 12)
	@hack/setup openstack
	$(ON_BED) go test -tags openstack -count=1 -v -run '$(CALLS)' -timeout 3h ./internal/provider/openstack $(if $(EVERY),-every $(EVERY))

test-bed: setup-test ## the test of that OpenStack itself, which it restarts: nobody else may use it meanwhile (root, Debian 12)
	@hack/setup openstack
	$(ON_BED) go test -tags openstack -count=1 -timeout 60m ./test/openstack/bed

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

bench-openstack: openstack-up ## naupegos against OpenTofu on a real OpenStack, side by side
	$(AS_ROOT) go run ./bench/openstack $(BENCH)

image: build ## a bootable disk image of machines with the bundle inside (root)
	@hack/setup image
	$(SUDO) $(NAUPEGOS) image build --kubernetes $(DEFAULT_KUBERNETES)

test-image: setup-test build bundle $(BED_BUNDLE) ## make an image, boot it on emulated computers, and a cluster on OpenStack from it: minutes (root)
	@hack/setup test-image
	$(AS_ROOT) go test -tags image -count=1 -timeout 60m -v ./internal/image
	$(AS_ROOT) go test -tags e2e,image -count=1 -run '^TestOwnImage$$' -timeout 60m -v ./test/e2e

TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/naupegos/tools
LINT := $(TOOLS)/golangci-lint-v2.15.0

$(LINT):
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

lint: $(LINT) ## golangci-lint, with the house's import rules
	$(LINT) run

docs: ## regenerate what docs/reference takes from the code
	go run ./hack/docs

clean: ## remove what was built (caches outside the clone stay)
	rm -rf bin dist .evidence
