package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A command of the page about security tests: its tag, its package and its tests.
var testCommand = regexp.MustCompile("`(?:NAUPEGOS_FULL=1 )?go test (?:-tags (\\w+) )?\\./([a-z0-9/]+) -run '([^']+)'`")

// TestFindings: the page has a row for each finding of the review, and every test that it names is in the package and needs the tag that the command has.
func TestFindings(t *testing.T) {
	page := readPage(t, "docs/reference/security-tests.md")
	var want, found []string
	for prefix, n := range map[string]int{"C": 1, "H": 2, "M": 14, "L": 9} {
		for i := range n {
			want = append(want, fmt.Sprint(prefix, i+1))
		}
	}
	rows := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "| command |") {
			continue
		}
		rows++
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if name := strings.TrimSpace(cells[1]); len(cells) == 5 {
			found = append(found, name)
		}
		commands := testCommand.FindAllStringSubmatch(cells[len(cells)-2], -1)
		if len(commands) == 0 || len(commands) != strings.Count(line, "go test ") {
			t.Errorf("not every command can be read: %s", line)
		}
		for _, c := range commands {
			for test := range strings.SplitSeq(c[3], "\x00") {
				test, script, _ := strings.Cut(test, "/")
				if got := tagOf(t, c[2], test); got != c[1] {
					t.Errorf("%s of %s needs the tag %q, and the command has %q", test, c[2], got, c[1])
				}
				if script == "" {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, c[2], "testdata/script", script+".txtar")); err != nil {
					t.Error(err)
				}
			}
		}
	}
	slices.Sort(want)
	slices.Sort(found)
	if !slices.Equal(found, want) || rows < 45 {
		t.Errorf("the page has %d rows, and of the findings %v", rows, found)
	}
}

// readPage returns the text of a file below the root.
func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tagOf returns the build tag of a test, or "missing".
func tagOf(t *testing.T, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !strings.Contains(text, "\nfunc "+name+"(") {
			continue
		}
		first, _, _ := strings.Cut(text, "\n")
		tag, _ := strings.CutPrefix(first, "//go:build ")
		if tag == first {
			return ""
		}
		return tag
	}
	return "missing"
}

// TestLimitsAreTold: the security page says what strangers on the provisioning network can do, because nothing in the program prevents it.
func TestLimitsAreTold(t *testing.T) {
	page := readPage(t, "docs/reference/security.md")
	_, limits, found := strings.Cut(page, "\n## What is not solved")
	if !found {
		t.Fatal("the page does not say what is not solved")
	}
	for _, said := range []string{"boot chain is not authenticated", "rogue DHCP, ProxyDHCP or TFTP server", "iPXE is not signed", "secure boot must be off", "RELEASE and DECLINE messages carry no proof",
		"use up our addresses", "DHCP snooping", "authorities", "store is as safe as your account", "trustOnFirstUse"} {
		if !strings.Contains(strings.Join(strings.Fields(limits), " "), said) {
			t.Errorf("the page does not say %q", said)
		}
	}
}
