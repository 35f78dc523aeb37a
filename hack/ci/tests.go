package main

import (
	"bytes"
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// testFunc is a test of the tree.
type testFunc struct {
	id         string          // directory and name, such as "test/e2e TestLife"
	build      constraint.Expr // of its file; nil: none
	onlyFull   bool            // it calls testkit.OnlyFull, which skips it in make test
	concurrent bool            // its package starts goroutines
}

var (
	testDecl   = regexp.MustCompile(`(?ms)^func (Test\w+)\(\w+ \*testing\.T\) \{$(.*?)^\}`)
	goroutines = regexp.MustCompile(`\bgo func|errgroup\.|sync\.WaitGroup|\.Go\(func`)
)

// findTests reads all tests below root from their sources.
func findTests(root string) (all []testFunc, err error) {
	concurrent := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "recipes"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			concurrent[dir] = concurrent[dir] || goroutines.Match(text)
			return nil
		}
		var build constraint.Expr
		if line, _, _ := bytes.Cut(text, []byte("\n")); constraint.IsGoBuild(string(line)) {
			if build, err = constraint.Parse(string(line)); err != nil {
				return err
			}
		}
		for _, m := range testDecl.FindAllSubmatch(text, -1) {
			all = append(all, testFunc{id: dir + " " + string(m[1]), build: build, onlyFull: bytes.Contains(m[2], []byte("\n\ttestkit.OnlyFull("))})
		}
		return nil
	})
	for i := range all {
		dir, _, _ := strings.Cut(all[i].id, " ")
		all[i].concurrent = concurrent[dir]
	}
	return all, err
}

// built reports whether the test's file belongs to a build with these tags.
func (f testFunc) built(tags string) bool {
	return f.build == nil || f.build.Eval(func(tag string) bool {
		return slices.Contains(strings.Split(tags, ","), tag) || tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix"
	})
}

// has reports whether the tier runs a test.
func (t *tier) has(f testFunc, full bool) bool {
	switch {
	case t.command != "", !f.built(t.tags), f.onlyFull && (!full || t.race),
		t.tags != "" && f.built(""), // the unit tier has it
		!regexp.MustCompile(t.only).MatchString(f.id), t.skip != "" && regexp.MustCompile(t.skip).MatchString(f.id):
		return false
	case full || t.tags != "":
		return true
	}
	// make test runs each package's unit tests once: with the race detector if it starts goroutines. The scripts of internal/cli start the
	// command 450 times, which takes a second each with the race detector.
	return t.race == (f.concurrent && !strings.HasPrefix(f.id, "internal/cli "))
}

// selected returns the tests that the tier runs, in order.
func (t *tier) selected(tests []testFunc, full bool) (ids []string) {
	for _, f := range tests {
		if t.has(f, full) {
			ids = append(ids, f.id)
		}
	}
	slices.Sort(ids)
	return ids
}
