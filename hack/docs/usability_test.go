package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A script of the command line's tests, and a text in it.
var script = regexp.MustCompile("script `(\\w+)`: `([^`]+)`")

// TestUsability: the page on usability has a row for each of the review's 27 stumbles and 18 conventions, and the tests that the rows name exist. A script has
// the text that the row names; a convention is ahead, equal, or has a reason.
func TestUsability(t *testing.T) {
	page := readPage(t, "docs/reference/usability.md")
	_, stumbles, _ := strings.Cut(page, "\n## Stumbles")
	stumbles, conventions, _ := strings.Cut(stumbles, "\n## Conventions")
	for i, row := range rowsOf(stumbles, "| # ") {
		if row[0] != strconv.Itoa(i+1) || len(row) != 4 {
			t.Errorf("row %d of the stumbles is %q", i+1, row)
			continue
		}
		provenBy(t, "stumble "+row[0], row[3])
	}
	if n := len(rowsOf(stumbles, "| # ")); n != 27 {
		t.Errorf("the review has 27 stumbles, and the page %d", n)
	}
	for _, row := range rowsOf(conventions, "| topic ") {
		if len(row) != 5 {
			t.Errorf("a row of the conventions is %q", row)
			continue
		}
		verdict, why, _ := strings.Cut(row[3], "; ")
		if verdict != "ahead" && verdict != "equal" || why != "" && !strings.Contains(why, "because") {
			t.Errorf("%s: the verdict %q is neither ahead nor equal, or its reason has no because", row[0], row[3])
		}
		provenBy(t, row[0], row[4])
	}
	if n := len(rowsOf(conventions, "| topic ")); n != 18 {
		t.Errorf("the review has 18 conventions, and the page %d", n)
	}
}

// rowsOf returns the cells of a table's rows, without its head.
func rowsOf(text, head string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, head) {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"))
		}
		rows = append(rows, cells)
	}
	return rows
}

// provenBy fails unless a cell names tests, and all of them exist.
func provenBy(t *testing.T, what, cell string) {
	t.Helper()
	for part := range strings.SplitSeq(cell, "; ") {
		if m := script.FindStringSubmatch(part); m != nil {
			text, err := os.ReadFile(filepath.Join(root, "internal/cli/testdata/script", m[1]+".txtar"))
			if err != nil || !strings.Contains(string(text), m[2]) {
				t.Errorf("%s: script %s has no %q: %v", what, m[1], m[2], err)
			}
			continue
		}
		m := room.FindStringSubmatch(part)
		if m == nil {
			t.Errorf("%s: %q names no test", what, part)
			continue
		}
		for _, test := range word.FindAllStringSubmatch(m[2], -1) {
			if !hasTest(t, m[1], test[1]) {
				t.Errorf("%s: %s has no %s", what, m[1], test[1])
			}
		}
	}
}
