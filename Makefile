# Naupegos: the two commands are `make demo` and `make test`.
SHELL := /bin/bash
export GOTOOLCHAIN ?= auto
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)
NAUPEGOS := bin/naupegos
DEFAULT_KUBERNETES := v1.36.3

.PHONY: help build setup setup-test demo test unit integration e2e bundle bundle-openstack bundles bench-local bench-openstack openstack-up openstack-down demo-openstack image test-image lint docs clean

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

# What the OpenStack test bed, which needs Debian 12, adds to the end-to-end tests.
BED_BUNDLE := $(shell . /etc/os-release 2>/dev/null; [ "$$ID $$VERSION_ID" != "debian 12" ] || echo bundle-openstack)

test: setup-test build bundle $(BED_BUNDLE) unit integration e2e ## every tier of tests, with all set-up

setup-test:
	@hack/setup test

unit: ## seconds, no root
	go vet ./...
	go test ./...

# Packages that have tests with real servers on loopback; two at a time, for most of their time they wait.
INTEGRATION = $(shell grep -rlE '^//go:build integration' --include='*_test.go' internal api cmd | xargs -n1 dirname | sort -u | sed 's,^,./,')

integration: build ## real servers on loopback (root)
	$(SUDO) env "PATH=$$PATH" go test -tags integration -p 2 -timeout 30m $(INTEGRATION)

e2e: build ## real machines and clusters (root)
	$(SUDO) env "PATH=$$PATH" go test -tags e2e -timeout 60m -v ./test/e2e

bench-local: build bundle ## naupegos against bare kubeadm, side by side
	$(SUDO) env "PATH=$$PATH" go run ./bench/local

openstack-up: ## a real OpenStack on this machine, from Debian's packages (root)
	@hack/setup openstack
	$(SUDO) env "PATH=$$PATH" go run ./test/openstack up

OPENSTACK := $(or $(NAUPEGOS_OPENSTACK_ROOT),/var/lib/naupegos/openstack)

demo-openstack: setup bundle-openstack openstack-up ## a real cluster on that OpenStack, through Octavia, with its cloud controllers (root)
	$(SUDO) env "PATH=$$PATH" go run ./test/openstack machines --kubernetes $(DEFAULT_KUBERNETES)
	$(SUDO) env OS_CLIENT_CONFIG_FILE=$(OPENSTACK)/clouds.yaml $(NAUPEGOS) apply -f examples/openstack.yaml --yes

openstack-down: ## stop it; PURGE=1 forgets its state too
	$(SUDO) env "PATH=$$PATH" go run ./test/openstack down $(if $(PURGE),--purge)

bench-openstack: openstack-up ## naupegos against OpenTofu on a real OpenStack, side by side
	$(SUDO) env "PATH=$$PATH" go run ./bench/openstack $(BENCH)

image: build ## a bootable disk image of machines with the bundle inside (root)
	@hack/setup image
	$(SUDO) $(NAUPEGOS) image build --kubernetes $(DEFAULT_KUBERNETES)

test-image: build bundle ## make an image and boot it on emulated computers: minutes (root)
	@hack/setup test-image
	$(SUDO) env "PATH=$$PATH" go test -tags image -timeout 60m -v ./internal/image

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
