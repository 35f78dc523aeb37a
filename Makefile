# Naupegos: the two commands are `make demo` and `make test`. hack/ci has the table of the tests' tiers.
SHELL := /bin/bash
export GOTOOLCHAIN ?= auto
# What is compiled in one clone is used in the next; programs, their tests and bundles (internal/bundle, fixedEnv) share packages.
SHARED = -trimpath -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(SHARED),$(GOFLAGS)) $(SHARED))
export CGO_ENABLED ?= 0
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)
AS_ROOT = $(SUDO) env "PATH=$$PATH"
.PHONY: $(filter-out test-% bench-%,$(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile))

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## /\1 /p' $(MAKEFILE_LIST) | awk '{n = $$1; $$1 = ""; printf "  make %-16s%s\n", n, $$0}'

build: ## bin/naupegos and bin/naupegos-agent
	@mkdir -p bin
	GOGC=400 go build -ldflags '-s -w -X github.com/naupegos/naupegos/internal/cli.version=$(VERSION)' -o bin/naupegos ./cmd/naupegos
	GOGC=400 go build -ldflags '-s -w' -o bin/naupegos-agent ./cmd/naupegos-agent

bundle: build ## the bundle of the default Kubernetes release
	bin/naupegos bundle build

bundle-%: build ## the bundle of a release, such as bundle-v1.37.2, or with addons, such as bundle-v1.37.2+metallb,openstack
	bin/naupegos bundle build --kubernetes $(word 1,$(subst +, ,$*)) --addons '$(word 2,$(subst +, ,$*))'

setup: setup-demo ## install Debian's packages for local clusters and bundles
setup-%:
	@hack/setup $*

demo: setup ## a real, highly available cluster on this machine, from nothing
	@$(MAKE) --no-print-directory build
	$(SUDO) bin/naupegos apply -f examples/local.yaml --yes

test: test-test ## the fixed set of tests, with all set-up
test-full: ## every test, hours; a tier that has passed for what is committed is not run again
test-busy: ## the unit and race tiers ten times, next to one busy loop per processor
	@hack/setup test && trap 'kill $$(jobs -p)' EXIT && for i in $$(seq $$(nproc)); do while :; do :; done & done && GOFLAGS='$(GOFLAGS) -count=10' go run ./hack/ci unit race
test-report: ## when and on which commit each test last passed, and how long it took
test-%: ## one tier of the tests, which hack/ci/tiers.go lists
	@[ $* = report ] || hack/setup test
	@go run ./hack/ci $*

lint: ## golangci-lint with the house's import rules, govulncheck, and a scan for secrets
	@hack/lint

docs: ## regenerate what docs/reference takes from the code
	go run ./hack/docs

pictures: ## the pictures of the web pages in docs, taken again (root, Chromium)
	$(AS_ROOT) NAUPEGOS_FULL=1 NAUPEGOS_SCREENSHOTS=$(CURDIR)/docs/images go test -tags integration -count=1 -run '^(TestEveryPage|TestFiguresInABrowser)$$' ./internal/web

bench-boot: AS_ROOT =
bench-boot: build ## the boot endpoints against matchbox, side by side: two minutes, no root
bench-local: bundle ## naupegos against bare kubeadm, side by side
bench-upgrade: bundle ## naupegos upgrade against kubeadm upgrade, side by side
bench-scale: bundle ## how plans grow with 10, 100 and 500 machines (real sshd and agents)
bench-addons: build ## naupegos' addons against helm install of the same charts, side by side
bench-openstack: openstack-up ## naupegos against OpenTofu on a real OpenStack, side by side
bench-%:
	$(AS_ROOT) go run ./bench/$* $(BENCH)

openstack-up: setup-openstack ## a real OpenStack on this machine, from Debian's packages (root)
	$(AS_ROOT) go run ./test/openstack up

openstack-down: ## stop it; PURGE=1 forgets its state too
	$(AS_ROOT) go run ./test/openstack down $(if $(PURGE),--purge)

demo-openstack: build openstack-up ## a real cluster on that OpenStack, through Octavia, with its cloud controllers (root)
	bin/naupegos bundle build --addons openstack
	$(AS_ROOT) go run ./test/openstack machines
	$(SUDO) env OS_CLIENT_CONFIG_FILE=$(or $(NAUPEGOS_OPENSTACK_ROOT),/var/lib/naupegos/openstack)/clouds.yaml bin/naupegos apply -f examples/openstack.yaml --yes

demo-metal: bundle setup-test ## two emulated machines become a cluster; prints where the server's pages are (root; slow: they are emulated)
	go build -o bin/demo-metal ./test/rack/demo
	$(AS_ROOT) bin/demo-metal

image: build setup-image ## a bootable disk image of machines with the bundle inside (root)
	$(SUDO) bin/naupegos image build

INTO = $(DESTDIR)$(or $(PREFIX),/usr/local)
install: build ## the programs, man pages and shell completion, to $(PREFIX); PREFIX=… for another place
	install -D -m 755 -t $(INTO)/bin bin/naupegos bin/naupegos-agent
	ln -sf naupegos $(INTO)/bin/kubectl-naupegos
	go run ./hack/docs -share $(INTO)/share

uninstall: ## remove what make install wrote
	rm -f $(INTO)/bin/{naupegos,naupegos-agent,kubectl-naupegos} $(INTO)/share/man/man1/naupegos{,-*}.1 $(INTO)/share/{bash-completion/completions/naupegos,zsh/site-functions/_naupegos,fish/vendor_completions.d/naupegos.fish}

deb: ## a Debian package of the programs and the server's unit, in dist/
	@rm -rf dist/tree && $(MAKE) --no-print-directory install DESTDIR=dist/tree PREFIX=/usr
	@hack/deb dist/tree '$(VERSION)' dist

clean: ## remove what was built (caches outside the clone stay)
	rm -rf bin dist .evidence
