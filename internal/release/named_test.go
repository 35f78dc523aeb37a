package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// version matches a Kubernetes release in a text.
var version = regexp.MustCompile(`\bv1\.(3[4-9]|[4-9][0-9])\.[0-9]+\b`)

// TestTextsNameTheDefault: examples for users name the release with which all tests run. A list of releases must name existing ones.
func TestTextsNameTheDefault(t *testing.T) {
	const root = "../.."
	several := []string{"docs/reference/commands.md", "docs/reference/support.md"}
	named := 0
	look := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, v := range version.FindAllString(line, -1) {
				named++
				told := (slices.Contains(several, rel) || strings.Contains(line, " → ")) && slices.Contains(Versions(), v) // an arrow: an upgrade
				if v != Default && !told {
					t.Errorf("%s:%d names %s; the default is %s", rel, i+1, v, Default)
				}
			}
		}
	}
	for _, dir := range []string{"docs", "examples"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				look(path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	look(filepath.Join(root, "README.md"))
	look(filepath.Join(root, "Makefile"))
	if named < 20 {
		t.Errorf("only %d versions were found: this test looks in the wrong place", named)
	}
}

// TestSupportMatrix: the documentation lists every release and every minor.
func TestSupportMatrix(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/support.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Versions() {
		if !strings.Contains(string(data), v) {
			t.Errorf("docs/reference/support.md does not name %s", v)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := slices.Clone(Minors())
	slices.Reverse(newest)
	last := len(newest) - 1
	if want := "Kubernetes " + strings.Join(newest[:last], ", ") + " and " + newest[last]; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
