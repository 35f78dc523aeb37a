package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"gotest.tools/gotestsum/testjson"
)

const module = "github.com/naupegos/naupegos/"

// verdict writes how a tier ended.
func (res *result) verdict() string {
	switch {
	case res.err != nil:
		return "FAILED: " + res.err.Error()
	case res.note != "":
		return res.note
	case res.budget > 0 && res.took > res.budget:
		return fmt.Sprintf("passed, over its budget of %v", res.budget)
	}
	return "passed"
}

// report prints what failed and why, a table of all tiers, and the verdict in the last line.
func (r *runner) report() error {
	var bad []string
	var whole time.Duration
	word, sum := "PASS", [3]int{}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, res := range r.results {
		n := [3]int{}
		if res.tests != nil {
			n = [3]int{0, top(res.tests.Failed()), top(res.tests.Skipped())}
			for _, p := range res.tests.Packages() {
				n[0] += top(res.tests.Package(p).Passed)
			}
		}
		if res.err != nil {
			word, bad = "FAIL", append(bad, res.name)
			fmt.Printf("\nFAILED: %s: %v (.evidence/TEST has the machines' logs)\n", res.name, res.err)
			if res.tests != nil {
				testjson.PrintSummary(os.Stdout, res.tests, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
			}
		}
		whole, sum = whole+res.took, [3]int{sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]}
		fmt.Fprintf(w, "%s\t%d passed\t%d failed\t%d skipped\t%v\t%s\n", res.name, n[0], n[1], n[2], res.took.Round(time.Second), res.verdict())
	}
	fmt.Printf("\nThe whole run took %v:\n", whole.Round(time.Second))
	err := w.Flush()
	fmt.Printf("%s: %d passed, %d failed, %d skipped\n", word, sum[0], sum[1], sum[2])
	if len(bad) > 0 {
		return errors.New("failed: " + strings.Join(bad, ", "))
	}
	return err
}

// top counts tests without their subtests.
func top(cases []testjson.TestCase) (n int) {
	for _, c := range cases {
		if !c.Test.IsSubTest() {
			n++
		}
	}
	return n
}

// pass is the last success of a test, or of a tier of make test-full.
type pass struct {
	At           time.Time
	Commit, Tree string // Tree: of a tier, the content that it passed for
	Seconds      float64
}

// cacheFile names a file in the user's cache, which outlives the clone.
func cacheFile(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "naupegos", "ci", name)
}

// loadPasses reads the passes of earlier runs. An unreadable file costs another run.
func loadPasses() map[string]pass {
	all := map[string]pass{}
	if text, err := os.ReadFile(cacheFile("passes.json")); err != nil || json.Unmarshal(text, &all) != nil {
		return map[string]pass{}
	}
	return all
}

// git returns a command's output; empty outside of a checkout.
func git(ctx context.Context, args ...string) string {
	out, _ := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out))
}

// tree names the content of the checkout; empty if some of it is not committed.
func tree(ctx context.Context) string {
	if git(ctx, "status", "--porcelain") != "" {
		return ""
	}
	return git(ctx, "rev-parse", "HEAD^{tree}")
}

// record keeps what passed.
func (r *runner) record(ctx context.Context, t *tier, res *result) error {
	now, all := pass{At: time.Now().UTC(), Commit: git(ctx, "describe", "--always", "--dirty")}, loadPasses()
	if res.tests != nil {
		for _, p := range res.tests.Packages() {
			for _, c := range res.tests.Package(p).Passed {
				now.Seconds = c.Elapsed.Seconds()
				all[strings.TrimPrefix(p, module)+" "+c.Test.Name()] = now
			}
		}
	}
	if now.Seconds = 0; res.err == nil {
		if r.full {
			now.Tree = tree(ctx)
		}
		all["tier "+t.name] = now
	}
	text, err := json.Marshal(all)
	path := cacheFile("passes.json")
	return errors.Join(err, os.WriteFile(path+".new", text, 0o644), os.Rename(path+".new", path))
}

// printPasses prints the last success of every test.
func printPasses(tests []testFunc) error {
	w, all := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0), loadPasses()
	fmt.Fprintln(w, "TIER\tLAST PASSED\tCOMMIT\tSECONDS\tTEST")
	for _, t := range tiers {
		for _, id := range append([]string{"tier " + t.name}, t.selected(tests, true)...) {
			when, p := "never", all[id]
			if !p.At.IsZero() {
				when = p.At.Format(time.DateTime)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\n", t.name, when, p.Commit, p.Seconds, id)
		}
	}
	return w.Flush()
}
