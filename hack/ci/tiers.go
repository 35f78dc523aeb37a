package main

import (
	"bytes"
	"fmt"
	"go/build/constraint"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/release"
)

// tier is a row of the table: tests that one go test command runs, or a check with a command of its own. Regular expressions select tests by
// directory and name, such as "test/e2e TestLife".
type tier struct {
	name    string
	command string        // replaces go test
	tags    string        // of go test; a tier with tags runs only tests behind these build tags
	only    string        // restricts the tier to these tests
	race    bool          // with the race detector: in make test only packages that start goroutines; in make test-full all packages, without NAUPEGOS_FULL
	bed     bool          // on the OpenStack test bed, which runs only on Debian 12
	needs   string        // targets of the Makefile, separated by blanks
	budget  time.Duration // warm, on a slow day; the report marks a tier that takes longer
	limit   time.Duration // time limit after which go test ends a hanging package and dumps its goroutines
	full    bool          // only make test-full runs the tier
}

var withOpenStack, former, earlier = "bundle-" + release.Default + "+openstack", "bundle-" + release.Former(1), "bundle-" + release.Former(2)

// allAddons lists the addons of a bundle that documents may list, as the names of bundles have them.
func allAddons() string {
	all := []string{"local-path"}
	for _, s := range catalogue.Sets() {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// tiers is the table, in the order of the runs. A test belongs to the first tier that can run it.
var tiers = []tier{
	{name: "static", command: "hack/static", budget: 2 * time.Minute},
	{name: "unit", budget: 3 * time.Minute, limit: time.Hour},
	{name: "race", race: true, budget: 5 * time.Minute, limit: time.Hour},
	{name: "integration", tags: "integration", needs: "bundle", budget: 15 * time.Minute, limit: 70 * time.Minute},
	{name: "node", tags: "e2e", only: `^test/e2e TestNode$`, needs: "bundle", budget: 15 * time.Minute, limit: time.Hour},
	{name: "life", tags: "e2e", only: `^test/e2e Test(Life|Leftovers)$`, needs: "bundle " + former, budget: 16 * time.Minute, limit: time.Hour},
	{name: "cloud", tags: "e2e", only: `^test/e2e TestOpenStack$`, bed: true, needs: withOpenStack, budget: 8 * time.Minute, limit: time.Hour},

	{name: "lint", command: "make lint", full: true},
	{name: "calls", tags: "openstack", only: `^internal/provider/openstack TestEveryCallOnTheRealServices$`, bed: true, needs: "build", full: true, limit: 4 * time.Hour},
	{name: "bed", tags: "openstack", only: `^test/openstack/bed `, bed: true, full: true, limit: 2 * time.Hour},
	{name: "openstack", tags: "integration,openstack", bed: true, needs: withOpenStack, full: true, limit: time.Hour},
	{name: "upgrades", tags: "e2e", only: `^test/e2e Test(HA|Minors)$`, needs: "bundle " + former + " " + earlier, full: true, limit: 4 * time.Hour},
	{name: "killed", tags: "e2e", only: `^test/e2e TestKill`, needs: "bundle", full: true, limit: 4 * time.Hour},
	{name: "clouds", tags: "e2e", only: `^test/e2e TestOpenStack`, bed: true, needs: withOpenStack + " " + former + "+openstack", full: true, limit: 3 * time.Hour},
	{name: "rack", tags: "e2e", only: `^test/e2e Test(Install|Metal|Discovery)`, needs: "bundle", full: true, limit: 4 * time.Hour},
	{name: "clusters", tags: "e2e", needs: "bundle " + former + " " + withOpenStack +
		" bundle-" + release.Default + "+" + allAddons(), full: true, limit: 4 * time.Hour},
	{name: "images", tags: "image", needs: "setup-test-image bundle", full: true, limit: 2 * time.Hour},
	{name: "own-image", tags: "e2e,image", bed: true, needs: "setup-test-image " + withOpenStack, full: true, limit: 2 * time.Hour},
}

// argv returns the tier's command line, which writes the events of its tests to a file. go vet is the static tier's.
func (t *tier) argv(tests []testFunc, full bool, events string) []string {
	if t.command != "" {
		return strings.Fields(t.command)
	}
	dirs, names := map[string]bool{}, map[string]bool{}
	for _, id := range t.selected(tests, full) {
		dir, name, _ := strings.Cut(id, " ")
		dirs["./"+dir], names[name] = true, true
	}
	format := "pkgname"
	if strings.Contains(t.tags, "e2e") {
		format = "testname"
	}
	argv := strings.Fields(fmt.Sprintf("go tool gotestsum --format %s --format-hide-empty-pkg --jsonfile %s -- -vet=off -timeout=%v -race=%v -tags=%s", format, events, t.limit, t.race, t.tags))
	if t.tags != "" { // Go's test cache does not know the servers that a test runs
		argv = append(argv, "-count=1", "-p=2", "-run=^("+strings.Join(slices.Sorted(maps.Keys(names)), "|")+")$")
	}
	if argv = append(argv, slices.Sorted(maps.Keys(dirs))...); t.bed {
		argv = append([]string{"go", "run", "./test/openstack", "run"}, argv...)
	}
	if t.tags != "" && os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-E", "env", "PATH=" + os.Getenv("PATH")}, argv...)
	}
	return argv
}

// testFunc is a test of the tree.
type testFunc struct {
	dir, name string
	tier      *tier // the first tier of the table that can run it; nil: none
	onlyFull  bool  // it calls testkit.OnlyFull, which skips it in make test
	raced     bool  // make test runs it with the race detector, instead of without, because its package starts goroutines
}

func (f testFunc) id() string { return f.dir + " " + f.name }

var (
	testDecl   = regexp.MustCompile(`(?ms)^func (Test\w+)\(\w+ \*testing\.T\) \{$(.*?)^\}`)
	slow       = strings.Fields("hack/ci internal/cli internal/cli/serving internal/cluster/adopt internal/provider/openstack") // not raced: few goroutines, minutes
	goroutines = regexp.MustCompile(`\bgo func|errgroup\.|sync\.WaitGroup|\.Go\(func`)
)

// findTests finds all tests in the sources of a checkout.
func findTests(dir string) (all []testFunc, err error) {
	files, err := exec.Command("git", "-C", dir, "ls-files", "-co", "--exclude-standard", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the checkout: %w", err)
	}
	concurrent := map[string]bool{}
	for _, name := range strings.Fields(string(files)) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(name, "testdata/") || strings.Contains(name, "recipes/") {
			continue // deleted, or in another module
		}
		if !strings.HasSuffix(name, "_test.go") {
			concurrent[path.Dir(name)] = concurrent[path.Dir(name)] || goroutines.Match(text)
			continue
		}
		line, _, _ := strings.Cut(string(text), "\n")
		for _, m := range testDecl.FindAllSubmatch(text, -1) {
			f := testFunc{dir: path.Dir(name), name: string(m[1]), onlyFull: bytes.Contains(m[2], []byte("\n\ttestkit.OnlyFull("))}
			f.tier = firstTier(f.id(), line)
			all = append(all, f)
		}
	}
	for i := range all {
		all[i].raced = concurrent[all[i].dir] && !slices.Contains(slow, all[i].dir)
	}
	return all, nil
}

// firstTier returns the first tier that can run a test from a file with this first line.
func firstTier(id, line string) *tier {
	build, err := constraint.Parse(line)
	built := func(tags string) bool {
		return err != nil || build.Eval(func(tag string) bool {
			return slices.Contains(strings.Split(tags, ","), tag) || tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix"
		})
	}
	for i := range tiers {
		t := &tiers[i]
		if t.command == "" && built(t.tags) && built("") == (t.tags == "") && regexp.MustCompile(t.only).MatchString(id) {
			return t
		}
	}
	return nil
}

// has reports whether the tier includes a test.
func (t *tier) has(f testFunc, full bool) bool {
	if t.race {
		return f.tier != nil && f.tier.tags == "" && !f.onlyFull && (full || f.raced)
	}
	return f.tier == t && (full || !f.onlyFull && (t.tags != "" || !f.raced))
}

// selected returns the tests that the tier runs, in order.
func (t *tier) selected(tests []testFunc, full bool) (ids []string) {
	for _, f := range tests {
		if t.has(f, full) {
			ids = append(ids, f.id())
		}
	}
	slices.Sort(ids)
	return ids
}
