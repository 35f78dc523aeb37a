package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/release"
)

// tier is a row of the table: tests that one go test command runs, or a check with a command of its own. Regular expressions select tests by
// directory and name, such as "test/e2e TestLife".
type tier struct {
	name    string
	command string        // replaces go test
	tags    string        // of go test; a tier with tags runs only tests behind these build tags
	only    string        // the tier runs only these tests
	skip    string        // the tier leaves these tests to others
	race    bool          // with the race detector: in make test only packages that start goroutines; in make test-full all packages, without NAUPEGOS_FULL
	bed     bool          // on the OpenStack test bed, which runs only on Debian 12
	needs   string        // steps, separated by blanks
	budget  time.Duration // warm, on a slow day; the report marks a tier that takes longer
	limit   time.Duration // time limit after which go test ends a hanging package and dumps its goroutines
	full    bool          // only make test-full runs the tier
}

// The tests of real clusters: one life of each kind, then everything else.
const (
	life     = `^test/e2e Test(Life|Leftovers)$`
	cloud    = `^test/e2e TestOpenStack$`
	node     = `^test/e2e TestNode$`
	inCloud  = `^test/e2e TestOpenStack`
	onRack   = `^test/e2e Test(Install|Metal|Node|Discovery)`
	upgraded = `^test/e2e Test(HA|Minors)$`
	killed   = `^test/e2e TestKill`
	calls    = `^internal/provider/openstack TestEveryCallOnTheRealServices$`
	bedAlone = `^test/openstack/bed `
)

// tiers is the table, in the order of the runs. TestEveryTestIsReached checks that make test-full reaches every test.
var tiers = []tier{
	{name: "static", command: "hack/static", budget: 2 * time.Minute, limit: 30 * time.Minute},
	{name: "unit", budget: 3 * time.Minute, limit: time.Hour},
	{name: "race", race: true, budget: 5 * time.Minute, limit: time.Hour},
	{name: "integration", tags: "integration", needs: "build bundle", budget: 15 * time.Minute, limit: 70 * time.Minute},
	// Remove full from these three once they have passed on a slow host; they then belong to make test.
	{name: "node", tags: "e2e", only: node, needs: "build bundle", full: true, budget: 15 * time.Minute, limit: time.Hour},
	{name: "life", tags: "e2e", only: life, needs: "build bundle bundle-former", full: true, budget: 16 * time.Minute, limit: time.Hour},
	{name: "cloud", tags: "e2e", only: cloud, bed: true, needs: "build bundle-openstack", full: true, budget: 8 * time.Minute, limit: time.Hour},

	{name: "lint", command: "make lint", full: true, limit: time.Hour},
	{name: "openstack", tags: "integration,openstack", skip: calls + "|" + bedAlone, bed: true, needs: "build bundle-openstack", full: true, limit: time.Hour},
	{name: "clusters", tags: "e2e", skip: strings.Join([]string{life, inCloud, onRack, upgraded, killed}, "|"),
		needs: "build bundle bundle-former bundle-openstack bundle-addons", full: true, limit: 4 * time.Hour},
	{name: "upgrades", tags: "e2e", only: upgraded, needs: "build bundle bundle-former bundle-earlier", full: true, limit: 4 * time.Hour},
	{name: "killed", tags: "e2e", only: killed, needs: "build bundle", full: true, limit: 4 * time.Hour},
	{name: "clouds", tags: "e2e", only: inCloud, skip: cloud, bed: true, needs: "build bundle-openstack bundle-openstack-former", full: true, limit: 3 * time.Hour},
	{name: "rack", tags: "e2e", only: onRack, skip: node, needs: "build bundle", full: true, limit: 4 * time.Hour},
	{name: "calls", tags: "openstack", only: calls, bed: true, needs: "build", full: true, limit: 4 * time.Hour},
	{name: "bed", tags: "openstack", only: bedAlone, bed: true, full: true, limit: 2 * time.Hour},
	{name: "images", tags: "image", needs: "setup-image build bundle", full: true, limit: 2 * time.Hour},
	{name: "own-image", tags: "e2e,image", only: `^test/e2e TestOwnImage$`, bed: true, needs: "setup-image build bundle-openstack", full: true, limit: 2 * time.Hour},
}

type step struct{ name, command string }

// steps are the set-up that tiers need, in the order of the runs.
var steps = []step{
	{"setup", "hack/setup test"},
	{"setup-image", "hack/setup test-image"},
	{"build", "make --no-print-directory build"},
	{"bundle", "bin/naupegos bundle build --kubernetes " + release.Default},
	{"bundle-former", "bin/naupegos bundle build --kubernetes " + release.Former(1)},
	{"bundle-earlier", "bin/naupegos bundle build --kubernetes " + release.Former(2)},
	{"bundle-openstack", "bin/naupegos bundle build --addons openstack --kubernetes " + release.Default},
	{"bundle-addons", "bin/naupegos bundle build --addons cert-manager,external-dns,kube-state-metrics,local-path,metallb,metrics-server,node-exporter,snapshot-controller --kubernetes " + release.Default},
	{"bundle-openstack-former", "bin/naupegos bundle build --addons openstack --kubernetes " + release.Former(1)},
}

// argv returns the tier's command line, which writes the events of its tests to a file.
func (t *tier) argv(tests []testFunc, full bool, count int, events string) []string {
	if t.command != "" {
		return strings.Fields(t.command)
	}
	dirs, names := map[string]bool{}, map[string]bool{}
	for _, id := range t.selected(tests, full) {
		dir, name, _ := strings.Cut(id, " ")
		dirs["./"+dir], names[name] = true, true
	}
	argv := strings.Fields("go tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile " + events + " -- -timeout " + t.limit.String())
	if strings.Contains(t.tags, "e2e") {
		argv[4] = "testname"
	}
	if t.race {
		argv = append(argv, "-race")
	}
	if count > 0 {
		argv = append(argv, fmt.Sprintf("-count=%d", count))
	}
	if t.tags != "" { // Go's test cache does not know the servers that a test runs
		argv = append(argv, "-tags", t.tags, "-count=1", "-p", "2", "-run", "^("+strings.Join(slices.Sorted(maps.Keys(names)), "|")+")$")
	}
	if argv = append(argv, slices.Sorted(maps.Keys(dirs))...); t.bed {
		argv = append([]string{"go", "run", "./test/openstack", "run"}, argv...)
	}
	if t.tags != "" && os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-E", "env", "PATH=" + os.Getenv("PATH")}, argv...)
	}
	return argv
}
