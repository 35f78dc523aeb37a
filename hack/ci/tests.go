package main

import (
	"bytes"
	"fmt"
	"go/build/constraint"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// testFunc is a test of the tree.
type testFunc struct {
	dir, name  string
	build      constraint.Expr // build constraint of its file; nil: none
	onlyFull   bool            // it calls testkit.OnlyFull, which skips it in make test
	concurrent bool            // its package starts goroutines
}

var (
	testDecl   = regexp.MustCompile(`(?ms)^func (Test\w+)\(\w+ \*testing\.T\) \{$(.*?)^\}`)
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
		var build constraint.Expr
		if line, _, _ := strings.Cut(string(text), "\n"); constraint.IsGoBuild(line) {
			if build, err = constraint.Parse(line); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		for _, m := range testDecl.FindAllSubmatch(text, -1) {
			all = append(all, testFunc{path.Dir(name), string(m[1]), build, bytes.Contains(m[2], []byte("\n\ttestkit.OnlyFull(")), false})
		}
	}
	for i := range all {
		all[i].concurrent = concurrent[all[i].dir]
	}
	return all, nil
}

func (f testFunc) id() string { return f.dir + " " + f.name }

// built reports whether a build with these tags includes the test's file.
func (f testFunc) built(tags string) bool {
	return f.build == nil || f.build.Eval(func(tag string) bool {
		return slices.Contains(strings.Split(tags, ","), tag) || tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix"
	})
}

// has reports whether the tier includes a test.
func (t *tier) has(f testFunc, full bool) bool {
	switch {
	case t.command != "", !f.built(t.tags), f.onlyFull && (!full || t.race),
		t.tags != "" && f.built(""), // the unit tier includes it
		!regexp.MustCompile(t.only).MatchString(f.id()), t.skip != "" && regexp.MustCompile(t.skip).MatchString(f.id()):
		return false
	case full || t.tags != "":
		return true
	}
	// make test runs each package's unit tests once: with the race detector if the package starts goroutines. internal/cli is an exception: its
	// scripts start the command 450 times, which takes a second each with the race detector.
	return t.race == (f.concurrent && f.dir != "internal/cli")
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
