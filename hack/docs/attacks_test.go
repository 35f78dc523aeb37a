package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	room = regexp.MustCompile("((?:api|hack|internal|test)/[a-z0-9/]+): ((?:`\\w+`(?:, )?)+)")
	word = regexp.MustCompile("`(\\w+)`")
)

// TestAttacks: the tests that the security page names for each attack exist where the page says.
func TestAttacks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Attacks")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what is tried") {
			continue
		}
		rows++
		named := room.FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, m := range named {
			for _, test := range word.FindAllStringSubmatch(m[2], -1) {
				if !hasTest(t, m[1], test[1]) {
					t.Errorf("%s has no %s", m[1], test[1])
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("the table has %d rows", rows)
	}
}

// hasTest reports whether a directory has a test or a fuzz test of that name.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
