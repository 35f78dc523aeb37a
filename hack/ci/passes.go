package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// event is a line of go test -json (go doc test2json), or an entry of the file of passes.
type event struct {
	Time                  time.Time
	Action, Package, Test string
	Elapsed               float64 // seconds
	Commit, Tree          string  // what passed; Tree identifies the content for which a tier of make test-full passed
}

// readEvents returns the last event of each test from an output file of go test -json. The file is absent if the tier ended before its first test.
func readEvents(path string) map[string]event {
	text, _ := os.ReadFile(path)
	last := map[string]event{}
	for line := range bytes.Lines(text) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			last[strings.TrimPrefix(e.Package, "github.com/naupegos/naupegos/")+" "+e.Test] = e
		}
	}
	return last
}

// cacheFile returns the path of a file in the user's cache, which outlives the clone.
func cacheFile(name string) string {
	dir, _ := os.UserCacheDir() // go has the same
	return filepath.Join(dir, "naupegos", "ci", name)
}

// loadPasses reads the passes of earlier runs. If the file is unreadable, the tiers run again.
func loadPasses() map[string]event {
	all := map[string]event{}
	text, _ := os.ReadFile(cacheFile("passes"))
	_ = json.Unmarshal(text, &all)
	return all
}

// git returns a git command's output; empty outside a checkout.
func git(ctx context.Context, args ...string) string {
	out, _ := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out))
}

// tree identifies the content of the checkout for make test-full; empty if there are uncommitted changes.
func tree(ctx context.Context, full bool) string {
	if !full || git(ctx, "status", "--porcelain") != "" {
		return ""
	}
	return git(ctx, "rev-parse", "HEAD^{tree}")
}

var recording sync.Mutex

// record saves the tests that passed, and the tier if all its tests passed; tree is empty unless the tier ran as in make test-full.
func record(ctx context.Context, tier string, ran map[string]event, passed bool, tree string) error {
	recording.Lock()
	defer recording.Unlock()
	commit, all := git(ctx, "describe", "--always", "--dirty"), loadPasses()
	for id, e := range ran {
		if e.Action == "pass" {
			e.Commit = commit
			all[id] = e
		}
	}
	if passed {
		all["tier "+tier] = event{Time: time.Now().UTC(), Commit: commit, Tree: tree}
	}
	text, err := json.Marshal(all)
	return errors.Join(err, os.WriteFile(cacheFile("passes.new"), text, 0o644), os.Rename(cacheFile("passes.new"), cacheFile("passes")))
}

// printPasses prints the last success of every test.
func printPasses(out io.Writer, tests []testFunc) error {
	w, all := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), loadPasses()
	fmt.Fprintln(w, "TIER\tLAST PASSED\tCOMMIT\tSECONDS\tTEST")
	for i := range tiers {
		t := &tiers[i]
		for _, id := range append([]string{"tier " + t.name}, t.selected(tests, true)...) {
			when, p := "never", all[id]
			if !p.Time.IsZero() {
				when = p.Time.Format(time.DateTime)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\n", t.name, when, p.Commit, p.Elapsed, id)
		}
	}
	return w.Flush()
}
