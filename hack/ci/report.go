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

// verdict describes the outcome of a tier.
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

// report prints the failures, a table of all tiers, and the verdict in the last line.
func (r *runner) report() error {
	var bad []string
	word, sum := "PASS", [3]int{}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, res := range r.results {
		if res.err != nil {
			word, bad = "FAIL", append(bad, res.name)
			fmt.Printf("\nFAILED: %s: %v (.evidence/TEST has the logs of a failed test's machines)\n", res.name, res.err)
			if res.tests != nil {
				testjson.PrintSummary(os.Stdout, res.tests, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
			}
		}
		n := [3]int{}
		if res.tests != nil {
			n[1], n[2] = top(res.tests.Failed()), top(res.tests.Skipped())
			for _, p := range res.tests.Packages() {
				n[0] += top(res.tests.Package(p).Passed)
			}
		}
		sum[0], sum[1], sum[2] = sum[0]+n[0], sum[1]+n[1], sum[2]+n[2]
		fmt.Fprintf(w, "%s\t%d passed\t%d failed\t%d skipped\t%v\t%s\n", res.name, n[0], n[1], n[2], res.took.Round(time.Second), res.verdict())
	}
	fmt.Printf("\nThe whole run took %v:\n", time.Since(r.began).Round(time.Second))
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%s: %d passed, %d failed, %d skipped\n", word, sum[0], sum[1], sum[2])
	if len(bad) > 0 {
		return errors.New("failed: " + strings.Join(bad, ", "))
	}
	return nil
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
	At      time.Time
	Commit  string
	Tree    string `json:",omitempty"` // the Git tree that a tier passed for
	Seconds float64
}

// cacheFile returns the path of a file in the user's cache, outside of the clone.
func cacheFile(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "naupegos", "ci", name)
}

// loadPasses reads the last successes. An unreadable file only costs another run.
func loadPasses() map[string]pass {
	all := map[string]pass{}
	if text, err := os.ReadFile(cacheFile("passes.json")); err != nil || json.Unmarshal(text, &all) != nil {
		return map[string]pass{}
	}
	return all
}

// tree returns the Git tree of the checkout, or "" if it has uncommitted changes.
func tree(ctx context.Context) string {
	if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		return ""
	}
	out, _ := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output() // outside of a checkout: none
	return strings.TrimSpace(string(out))
}

// record stores the successes of a run.
func (r *runner) record(ctx context.Context, t *tier, res *result) error {
	commit, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output() // outside of a checkout: none
	now := pass{At: time.Now().UTC(), Commit: strings.TrimSpace(string(commit))}
	all := loadPasses()
	if res.err == nil {
		whole := now
		if r.full {
			whole.Tree = tree(ctx)
		}
		all["tier "+t.name] = whole
	}
	if res.tests != nil {
		for _, p := range res.tests.Packages() {
			for _, c := range res.tests.Package(p).Passed {
				now.Seconds = c.Elapsed.Seconds()
				all[strings.TrimPrefix(p, module)+" "+c.Test.Name()] = now
			}
		}
	}
	text, err := json.Marshal(all)
	path := cacheFile("passes.json")
	return errors.Join(err, os.WriteFile(path+".new", text, 0o644), os.Rename(path+".new", path))
}

// printPasses prints the last success of every test.
func printPasses(tests []testFunc) error {
	w, all := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0), loadPasses()
	fmt.Fprintln(w, "TIER\tLAST PASSED\tCOMMIT\tSECONDS\tTEST")
	for i := range tiers {
		for _, id := range append([]string{"tier " + tiers[i].name}, tiers[i].selected(tests, true)...) {
			if p, ok := all[id]; ok {
				fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\n", tiers[i].name, p.At.Format(time.DateTime), p.Commit, p.Seconds, id)
			} else {
				fmt.Fprintf(w, "%s\tnever\t\t\t%s\n", tiers[i].name, id)
			}
		}
	}
	return w.Flush()
}
