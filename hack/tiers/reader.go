package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of go test -json; see go doc test2json and, for those of builds, go help buildjson.
type event struct {
	Action     string
	Package    string
	Test       string
	ImportPath string
	Elapsed    float64
	Output     string
}

// longTest is from how many seconds on a test's end is printed as it comes, so that somebody who waits sees something.
const longTest = 5

// reader reads a command's output, prints it as go test without -json would, and keeps what it came to. Lines that are no events are
// printed as they are.
type reader struct {
	tier    *tier
	out     io.Writer
	verbose bool // print as go test -v does

	rest     []byte // of a line that has not ended
	packages map[string]*pkg
	tests    map[[2]string]*test
	parts    map[*lines]string // of lines that have not ended
}

func (r *reader) Write(text []byte) (int, error) {
	r.rest = append(r.rest, text...)
	for {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		r.line(string(line))
		r.rest = rest
	}
}

// end reads what came without a line's end, and has tests that never ended fail.
func (r *reader) end() {
	if len(r.rest) > 0 {
		r.line(string(r.rest))
		r.rest = nil
	}
	for _, p := range r.tier.Packages {
		if p.Status == "" {
			r.packageEnds(p, "fail")
		}
	}
}

func (r *reader) line(text string) {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
		r.print(text + "\n")
		r.tier.Said.add(text)
		return
	}
	if e.Package == "" { // a build
		if e.Output != "" {
			r.print(e.Output)
			r.say(&r.tier.Said, e.Output)
		}
		return
	}
	p := r.pkg(e.Package)
	if e.Test == "" {
		r.packageEvent(p, e)
		return
	}
	r.testEvent(p, r.test(p, e.Test), e)
}

func (r *reader) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		for _, start := range []string{"ok  \t", "FAIL\t", "?   \t", "---\t"} {
			if strings.HasPrefix(e.Output, start) {
				p.Closing = strings.TrimSpace(e.Output)
			}
		}
		r.say(&p.Said, e.Output)
		if r.verbose {
			r.print(e.Output)
		}
	case "pass", "fail", "skip":
		r.packageEnds(p, e.Action)
	}
}

func (r *reader) packageEnds(p *pkg, status string) {
	p.Status = status
	r.flush(&p.Said)
	for _, c := range p.Tests {
		if c.Status == "" {
			c.Status = "fail"
			r.flush(&c.Said)
			c.Said.add("(it did not end)")
		}
	}
	if p.Closing == "" {
		p.Closing = "FAIL\t" + p.Name
	}
	if !r.verbose && status == "fail" {
		printFailures(r.out, p)
	}
	if !r.verbose && status != "skip" {
		r.print(p.Closing + "\n")
	}
	if status != "fail" {
		p.Said = nil
	}
}

func (r *reader) testEvent(p *pkg, c *test, e event) {
	switch e.Action {
	case "output":
		r.say(&c.Said, e.Output)
		if i := strings.Index(e.Output, "seed: "); i >= 0 {
			c.Seeds = append(c.Seeds, strings.TrimSpace(e.Output[i:]))
		}
		if r.verbose {
			r.print(e.Output)
		}
	case "pass", "fail", "skip":
		c.Status, c.Seconds = e.Action, e.Elapsed
		r.flush(&c.Said)
		if !r.verbose && e.Elapsed >= longTest && !strings.Contains(c.Name, "/") {
			r.print(verdict(c) + "\n")
		}
		if e.Action != "fail" {
			c.Said = nil
		}
	}
}

// verdict writes how a test ended, as go test does.
func verdict(c *test) string {
	return fmt.Sprintf("--- %s: %s (%.2fs)", strings.ToUpper(c.Status), c.Name, c.Seconds)
}

func (r *reader) pkg(name string) *pkg {
	if r.packages == nil {
		r.packages, r.tests = map[string]*pkg{}, map[[2]string]*test{}
	}
	p := r.packages[name]
	if p == nil {
		p = &pkg{Name: name}
		r.packages[name] = p
		r.tier.Packages = append(r.tier.Packages, p)
	}
	return p
}

func (r *reader) test(p *pkg, name string) *test {
	c := r.tests[[2]string{p.Name, name}]
	if c == nil {
		c = &test{Name: name}
		r.tests[[2]string{p.Name, name}] = c
		p.Tests = append(p.Tests, c)
	}
	return c
}

// say adds output, which may be part of a line, to what somebody said.
func (r *reader) say(to *lines, output string) {
	if r.parts == nil {
		r.parts = map[*lines]string{}
	}
	text, ended := strings.CutSuffix(r.parts[to]+output, "\n")
	if !ended {
		r.parts[to] = text
		return
	}
	delete(r.parts, to)
	to.add(text)
}

// flush adds what somebody said without ending the line.
func (r *reader) flush(to *lines) {
	if r.parts[to] != "" {
		r.say(to, "\n")
	}
}

// print writes to the terminal. What can't be written there is kept all the same.
func (r *reader) print(text string) { fmt.Fprint(r.out, text) }
