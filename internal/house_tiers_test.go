package internal_test

import (
	"bytes"
	"go/build/constraint"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// testTargets are the make targets that run tests. CONTRIBUTING.md tells of each.
var testTargets = []string{"static", "unit", "race", "integration", "e2e", "test-openstack", "test-calls", "test-bed", "test-image", "e2e-metal-full", "test", "test-full"}

// onTheBed are those that run on the test bed, of which the dry run of what starts it shows nothing.
var onTheBed = []string{"openstack", "e2e-openstack"}

// notInTest are the tests, by package and name, that make test leaves to make test-full.
var notInTest = regexp.MustCompile(`^(internal/provider/openstack TestEveryCallOnTheRealServices|test/openstack/bed \w+|internal/image \w+|test/e2e TestOwnImage)$`)

// goTest is one go test command of the Makefile.
type goTest struct {
	tags, dirs []string
	run, skip  *regexp.Regexp // nil: all of the packages' tests, none of them
}

// TestEveryTestIsReached makes sure that no test lies behind a build tag, or in a package, that no make target reaches.
func TestEveryTestIsReached(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	full, usual := goTests(t, append(onTheBed, "test-full")...), goTests(t, append(onTheBed, "test")...)
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range testTargets {
		if !bytes.Contains(text, []byte("`make "+target+"`")) {
			t.Errorf("CONTRIBUTING.md does not tell of make %s", target)
		}
	}
	checked := 0
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // somebody's editor was faster
		}
		expr := buildTags(t, path, text)
		if expr == nil {
			return nil // make unit has all packages
		}
		checked++
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			name, dir := string(m[1]), filepath.Dir(path)
			reached := func(c goTest) bool { return c.reaches(expr, dir, name) }
			if !slices.ContainsFunc(full, reached) {
				t.Errorf("%s: make test-full does not run %s (%s)", path, name, expr)
			}
			left := notInTest.MatchString(strings.TrimPrefix(dir, "../") + " " + name)
			if ran := slices.ContainsFunc(usual, reached); ran == left {
				t.Errorf("%s: that make test runs %s (%s) is %t, notInTest says otherwise", path, name, expr, ran)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 50 {
		t.Fatalf("only %d test files with build tags were found: this test looks in the wrong place", checked)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func (c goTest) reaches(expr constraint.Expr, dir, name string) bool {
	tagged := expr.Eval(func(tag string) bool {
		return slices.Contains(c.tags, tag) || tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix"
	})
	return tagged && slices.Contains(c.dirs, dir) && (c.run == nil || c.run.MatchString(name)) && (c.skip == nil || !c.skip.MatchString(name))
}

// buildTags returns a file's build constraint; nil where it has none.
func buildTags(t *testing.T, path string, text []byte) constraint.Expr {
	t.Helper()
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if !constraint.IsGoBuild(string(line)) {
		return nil
	}
	expr, err := constraint.Parse(string(line))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return expr
}

// TestBundlesOfTiers: the bundle that only a test of make test-full needs is compiled there, for ten minutes, and not in make test.
func TestBundlesOfTiers(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	const built = "bundle build --kubernetes v1."
	usual, full := strings.Count(dryRun(t, "test"), built), strings.Count(dryRun(t, "test-full"), built)
	if usual < 2 || full != usual+1 {
		t.Errorf("make test makes %d bundles, make test-full %d, which should be one more", usual, full)
	}
}

// goTests asks make what it would run.
func goTests(t *testing.T, targets ...string) (all []goTest) {
	t.Helper()
	for _, text := range strings.Split(dryRun(t, targets...), "go test ")[1:] {
		args, _, _ := strings.Cut(text, "\n")
		all = append(all, readGoTest(strings.Fields(args)))
	}
	return all
}

// dryRun is what make says it would run, on a host that can have the test bed.
func dryRun(t *testing.T, targets ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"--dry-run", "--no-print-directory", "BED=yes"}, targets...)...)
	cmd.Dir = ".."
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // the make that runs this test hands down what it was told
		name, _, _ := strings.Cut(v, "=")
		return name != "PATH" && name != "HOME" && name != "XDG_CACHE_HOME" && !strings.HasPrefix(name, "GO")
	})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make --dry-run: %v: %s", err, stderr.String())
	}
	return string(out)
}

func readGoTest(args []string) (c goTest) {
	for i, arg := range args {
		arg = strings.Trim(arg, "'") // the shell's
		switch {
		case arg == "-tags":
			c.tags = strings.Split(args[i+1], ",")
		case arg == "-run":
			c.run = regexp.MustCompile(strings.Trim(args[i+1], "'"))
		case arg == "-skip":
			c.skip = regexp.MustCompile(strings.Trim(args[i+1], "'"))
		case strings.HasPrefix(arg, "./"):
			c.dirs = append(c.dirs, filepath.Join("..", arg))
		}
	}
	return c
}
