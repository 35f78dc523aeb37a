package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"gotest.tools/gotestsum/testjson"
)

const module = "github.com/naupegos/naupegos/"

// verdict writes how long a tier took, and how it ended.
func (res *result) verdict(good string) string {
	switch s := fmt.Sprintf("%s after %d:%02d", good, int(res.took.Minutes()), int(res.took.Seconds())%60); {
	case res.err != nil:
		return s + ", FAILED: " + res.err.Error()
	case res.budget > 0 && res.took > res.budget:
		return fmt.Sprintf("%s, over its budget of %v", s, res.budget)
	case res.note != "":
		return res.note
	default:
		return s
	}
}

// report prints what failed and why, a table of all tiers, and the verdict in the last line.
func (r *runner) report() error {
	var bad []string
	passed, failed, skipped := 0, 0, 0
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, res := range r.results {
		if res.err != nil {
			bad = append(bad, res.name)
			fmt.Printf("\nFAILED: %s: %v\nThe evidence of tests with machines is in .evidence/TEST.\n", res.name, res.err)
			if res.exec != nil {
				testjson.PrintSummary(os.Stdout, res.exec, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
			}
		}
		p, f, s := res.count()
		passed, failed, skipped = passed+p, failed+f, skipped+s
		fmt.Fprintf(w, "%s\t%d passed\t%d failed\t%d skipped\t%s\n", res.name, p, f, s, res.verdict("ended"))
	}
	fmt.Printf("\nThe whole run took %v:\n", time.Since(r.began).Round(time.Second))
	if err := w.Flush(); err != nil {
		return err
	}
	word := "PASS"
	if len(bad) > 0 {
		word = "FAIL"
	}
	fmt.Printf("%s: %d passed, %d failed, %d skipped\n", word, passed, failed, skipped)
	if len(bad) > 0 {
		return errors.New("these tiers or steps failed: " + strings.Join(bad, ", "))
	}
	return nil
}

// count counts tests without their subtests.
func (res *result) count() (passed, failed, skipped int) {
	if res.exec == nil {
		return 0, 0, 0
	}
	count := func(cases []testjson.TestCase) (n int) {
		for _, c := range cases {
			if !c.Test.IsSubTest() {
				n++
			}
		}
		return n
	}
	for _, p := range res.exec.Packages() {
		passed += count(res.exec.Package(p).Passed)
	}
	return passed, count(res.exec.Failed()), count(res.exec.Skipped())
}

// passes is what the user's cache keeps of a tier: the tree for which make test-full last passed it, and each test's last success.
type passes struct {
	Tree  string
	Tests map[string]pass
}

type pass struct {
	At      time.Time
	Commit  string
	Seconds float64
}

func load(tier string) (p passes, path string, err error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return p, "", err
	}
	path = filepath.Join(dir, "naupegos", "ci", tier+".json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return passes{Tests: map[string]pass{}}, path, nil
	}
	if err != nil {
		return p, path, err
	}
	return p, path, json.Unmarshal(text, &p)
}

// tree names the content of the checkout; empty if some of it is not committed.
func tree(ctx context.Context) string {
	if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		return ""
	}
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func passedFor(ctx context.Context, tier string) bool {
	p, _, err := load(tier)
	now := tree(ctx)
	return err == nil && now != "" && p.Tree == now
}

// record keeps what passed. A run that was interrupted keeps nothing.
func record(ctx context.Context, t *tier, res *result, full bool) error {
	p, path, err := load(t.name)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if full && res.err == nil {
		p.Tree = tree(ctx)
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return err
	}
	for _, name := range res.exec.Packages() {
		for _, c := range res.exec.Package(name).Passed {
			p.Tests[strings.TrimPrefix(name, module)+" "+c.Test.Name()] = pass{time.Now().UTC(), strings.TrimSpace(string(commit)), c.Elapsed.Seconds()}
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", text, 0o644)); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// records prints the last success of every test.
func records(tests []testFunc) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIER\tLAST PASSED\tCOMMIT\tSECONDS\tTEST")
	for i := range tiers {
		p, _, err := load(tiers[i].name)
		if err != nil {
			return err
		}
		for _, id := range tiers[i].selected(tests, true) {
			if last, ok := p.Tests[id]; ok {
				fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\n", tiers[i].name, last.At.Format(time.DateTime), last.Commit, last.Seconds, id)
			} else {
				fmt.Fprintf(w, "%s\tnever\t\t\t%s\n", tiers[i].name, id)
			}
		}
	}
	return w.Flush()
}
