package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const slow = 20

// ended says what a tier came to when it is over: its slowest tests, what failed and why.
func ended(out io.Writer, t *tier) error {
	if slowest := t.slowest(slow); len(slowest) > 0 {
		fmt.Fprintf(out, "\nthe slowest tests of %s:\n", t.Name)
		for _, c := range slowest {
			fmt.Fprintf(out, "%9.2fs  %s\n", c.Seconds, c.Name)
		}
	}
	fmt.Fprintln(out)
	table(out, []*tier{t})
	if !t.failed() {
		return nil
	}
	failures(out, t)
	closing(out, []*tier{t}, false)
	return errFailed
}

// report says what all tiers came to, and which of those that are wanted did not run. Its last lines are go test's own about all packages.
func report(out io.Writer, all []*tier, want []string) (err error) {
	for _, name := range want {
		if !slices.ContainsFunc(all, func(t *tier) bool { return t.Name == name }) {
			all = append(all, &tier{Name: name, Error: "it did not run: what it needs has failed"})
		}
	}
	fmt.Fprintln(out)
	table(out, all)
	for _, t := range all {
		if t.Left != "" {
			fmt.Fprintf(out, "left out: %s: %s\n", t.Name, t.Left)
		}
	}
	for _, t := range all {
		if t.failed() {
			err = errFailed
			failures(out, t)
		}
	}
	if err != nil {
		fmt.Fprintf(out, "\nwhat failed tests have saved is in %s\n", filepath.Dir(kept))
	}
	fmt.Fprintln(out)
	closing(out, all, true)
	return err
}

func table(out io.Writer, all []*tier) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tier\ttests\tfailed\tskipped\ttime\tbudget\t")
	for _, t := range all {
		budget, verdict := "", ""
		if t.Budget > 0 {
			budget = clock(t.Budget)
			if t.Seconds > t.Budget {
				verdict = "  over its budget"
			}
		}
		if t.failed() {
			verdict += "  FAILED"
		}
		if t.Left != "" {
			verdict += "  left out"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, number(t.count("")), number(t.count("fail")), number(t.count("skip")), clock(t.Seconds), budget, verdict)
	}
	if len(all) > 1 {
		fmt.Fprintf(w, "all\t\t\t\t%s\t\t\n", clock(time.Since(all[0].Began).Seconds()))
	}
	_ = w.Flush() // to a terminal or a log that is gone, nothing can be said
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// clock writes seconds as minutes and seconds.
func clock(seconds float64) string {
	s := int(math.Round(seconds))
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// failures says what the failed tests of a tier said last, or its command where no test failed.
func failures(out io.Writer, t *tier) {
	told := false
	for _, p := range t.Packages {
		if p.Status == "fail" {
			told = !strings.Contains(p.Closing, "failed]") // in its build, of which the command says more
			fmt.Fprintf(out, "\nFAILED in %s: %s\n", t.Name, p.Name)
			printFailures(out, p)
		}
	}
	if told {
		return
	}
	fmt.Fprintf(out, "\nFAILED: %s: %s\n", t.Name, t.Error)
	for _, line := range t.Said.last() {
		fmt.Fprintln(out, line)
	}
}

// printFailures says what failed tests said last, and the package where none failed, or one ended it.
func printFailures(out io.Writer, p *pkg) {
	failed := false
	for _, c := range p.Tests {
		if !p.ownFailure(c) {
			continue
		}
		failed = true
		fmt.Fprintf(out, "\n%s said last:\n", verdict(c))
		said := c.Said.last()
		for _, seed := range c.Seeds {
			if !strings.Contains(strings.Join(said, "\n"), seed) {
				fmt.Fprintln(out, "    "+seed)
			}
		}
		for _, line := range said {
			fmt.Fprintln(out, line)
		}
	}
	if failed {
		return
	}
	for _, line := range p.Said.last() {
		if line != p.Closing {
			fmt.Fprintln(out, line)
		}
	}
}

// closing prints go test's lines about packages: those that passed, if they are wanted, then those that failed with their failed tests.
func closing(out io.Writer, all []*tier, passed bool) {
	failed := false
	for _, t := range all {
		for _, p := range t.Packages {
			if passed && p.Status == "pass" {
				fmt.Fprintln(out, p.Closing)
			}
		}
	}
	for _, t := range all {
		if !t.failed() {
			continue
		}
		failed = true
		none := true
		for _, p := range t.Packages {
			if p.Status != "fail" {
				continue
			}
			none = false
			for _, c := range p.Tests {
				if c.Status == "fail" {
					fmt.Fprintln(out, strings.Repeat("    ", strings.Count(c.Name, "/"))+verdict(c))
				}
			}
			fmt.Fprintln(out, p.Closing)
		}
		if none {
			fmt.Fprintf(out, "FAIL\t%s\t%.3fs\n", t.Name, t.Seconds)
		}
	}
	if failed {
		fmt.Fprintln(out, "FAIL")
	}
}
