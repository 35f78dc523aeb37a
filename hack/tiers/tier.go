package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tier is what a tier came to.
type tier struct {
	Name     string
	Began    time.Time
	Seconds  float64
	Budget   float64 `json:",omitempty"` // in seconds; 0: none
	Tree     string  `json:",omitempty"` // what was tested, where the run may be resumed
	Makes    bool    `json:",omitempty"` // it only makes what others need
	Error    string  `json:",omitempty"` // why its command failed
	Left     string  `json:",omitempty"` // why it was left out
	Packages []*pkg  `json:",omitempty"` // in the order in which they were heard of
	Said     lines   // last, by the command itself and not by a test
}

// pkg is one package that go test ran.
type pkg struct {
	Name    string
	Status  string  // pass, fail or skip; empty: it has not ended
	Closing string  // go test's line about it: "ok  \tpath\t0.5s"
	Said    lines   // by the package, not by one of its tests
	Tests   []*test // in the order of their starts
}

// test is one test or subtest.
type test struct {
	Name    string
	Status  string // as a package's
	Seconds float64
	Seeds   []string `json:",omitempty"` // the lines that say how to repeat its random choices
	Said    lines    // kept of those that failed
}

// lines are the last lines of an output.
type lines []string

const keep = 60

func (l *lines) add(text string) {
	*l = append(*l, text)
	if len(*l) > 2*keep { // now and then, not each time
		*l = slices.Delete(*l, 0, len(*l)-keep)
	}
}

func (l lines) last() []string { return l[max(0, len(l)-keep):] }

func (t *tier) failed() bool { return t.Error != "" }

// count returns how many tests, subtests not among them, there are of a status; of any status where it is empty.
func (t *tier) count(status string) (n int) {
	for _, p := range t.Packages {
		for _, c := range p.Tests {
			if !strings.Contains(c.Name, "/") && (status == "" || c.Status == status) {
				n++
			}
		}
	}
	return n
}

// ownFailure reports whether the test failed by itself, not by a subtest alone.
func (p *pkg) ownFailure(c *test) bool {
	if c.Status != "fail" {
		return false
	}
	below := slices.ContainsFunc(p.Tests, func(o *test) bool { return o.Status == "fail" && strings.HasPrefix(o.Name, c.Name+"/") })
	return !below || slices.ContainsFunc(c.Said, func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") && !strings.Contains(line, "seed: ")
	})
}

// slowest returns the n tests that took longest, subtests among them, by package.
func (t *tier) slowest(n int) (tests []*test) {
	for _, p := range t.Packages {
		tests = append(tests, p.Tests...)
	}
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return tests[:min(n, len(tests))]
}

// save writes what a tier came to, in place of what it came to before.
func save(dir string, t *tier) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, t.Name+".json"), text, 0o644)
}

// load reads what was saved, in the order in which the tiers began.
func load(dir string) (all []*tier, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t := &tier{}
		if err := json.Unmarshal(text, t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *tier) int { return a.Began.Compare(b.Began) })
	return all, nil
}
