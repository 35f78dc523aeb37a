package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
)

// TestCommandLines: the command itself accepts every command line in the pages and in help texts.
func TestCommandLines(t *testing.T) {
	for _, s := range append(fromPages(t), fromHelp(t)...) {
		if _, err := parse(s.words); err != nil {
			t.Errorf("%s: naupegos %s: %v", s.where, strings.Join(s.words, " "), err)
		}
	}
	for _, wrong := range [][]string{{"aply"}, {"apply", "--nonsense"}, {"node", "cordon", "demo"}, {"repair", "demo", "--plan"}, {"node", "lst", "demo"}, {"node", "list", "demo", "--since", "24h"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("naupegos %v is wrong, and this test does not notice it", wrong)
		}
	}
}

// inline matches a command line in prose.
var inline = regexp.MustCompile("`naupegos ([a-z][^`]*)`")

// TestInlineCommands: the commands and flags that prose names exist. Arguments are not checked.
func TestInlineCommands(t *testing.T) {
	checked := 0
	for _, path := range append(pages(t), filepath.Join(root, "CHANGELOG.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				checked++
				if err := named(m[1]); err != "" {
					t.Errorf("%s:%d: naupegos %s: %s", strings.TrimPrefix(path, root+"/"), i+1, m[1], err)
				}
			}
		}
	}
	if checked < 100 {
		t.Fatalf("only %d were found", checked)
	}
}

// named returns the command or flag of a command line in prose that does not exist; a|b|c are alternative commands.
func named(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if !strings.Contains(w, "|") || strings.ToLower(w) != w || strings.HasPrefix(w, "-") || i > 1 {
			continue
		}
		for one := range strings.SplitSeq(w, "|") {
			if err := named(strings.Join(append(append(append([]string{}, words[:i]...), one), words[i+1:]...), " ")); err != "" {
				return err
			}
		}
		return ""
	}
	c, rest, err := tree().Find(words)
	if err != nil {
		return err.Error()
	}
	if len(rest) > 0 && groupOnly(c) && !strings.HasPrefix(rest[0], "-") && rest[0] != "…" && rest[0] != "..." {
		return c.CommandPath() + " has no command " + rest[0]
	}
	if c.DisableFlagParsing {
		return ""
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	for _, w := range rest {
		if w == "--" {
			break
		}
		for one := range strings.SplitSeq(w, "|") {
			one = strings.Trim(one, "[].,")
			name, _, _ := strings.Cut(strings.TrimLeft(one, "-"), "=")
			if !strings.HasPrefix(one, "-") || name == "" {
				continue
			}
			f := c.Flags().Lookup(name)
			if f == nil {
				f = c.InheritedFlags().Lookup(name)
			}
			if f == nil && len(name) == 1 {
				f = c.Flags().ShorthandLookup(name)
			}
			if f == nil {
				return c.CommandPath() + " has no flag " + one
			}
		}
	}
	return ""
}

// TestEveryCommandIsShown: each command occurs in a code block of a handwritten page, and in an example in its help.
func TestEveryCommandIsShown(t *testing.T) {
	there := map[string]bool{}
	for _, s := range fromPages(t) {
		if c, err := parse(s.words); err == nil {
			there[c.CommandPath()] = true
		}
	}
	for _, c := range leaves() {
		if !there[c.CommandPath()] {
			t.Errorf("no page of docs shows %s", c.CommandPath())
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s --help has no example of it", c.CommandPath())
		}
	}
}

// TestEveryCommandIsRun: a script or a Go test runs each command.
func TestEveryCommandIsRun(t *testing.T) {
	ran := map[string]bool{}
	note := func(words []string) {
		if len(words) == 0 {
			return
		}
		if slices.Contains(words, "--help") {
			return
		}
		if c, _, err := tree().Find(words); err == nil {
			ran[c.CommandPath()] = true
		}
	}
	for _, dir := range []string{"internal", "test", "bench", "hack"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
				return err
			case strings.HasSuffix(path, ".txtar"):
				return inScript(path, note)
			case strings.HasSuffix(path, "_test.go"):
				return inGo(path, note)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range leaves() {
		if !ran[c.CommandPath()] {
			t.Errorf("no test runs %s", c.CommandPath())
		}
	}
}

var scripted = regexp.MustCompile(`(?m)^!? ?(?:exec|exits \S+) naupegos (.*)$`)

func inScript(path string, note func([]string)) error {
	text, err := os.ReadFile(path)
	for _, m := range scripted.FindAllStringSubmatch(string(text), -1) {
		note(strings.Fields(m[1]))
	}
	return err
}

// inGo calls note for calls and lists that contain the words of a command: r.run("node", "add", …), []string{"apply", "-f", …}.
func inGo(path string, note func([]string)) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		var in []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			in = n.Args
		case *ast.CompositeLit:
			in = n.Elts
		}
		var words []string
		flush := func() {
			for i, w := range words {
				if slices.ContainsFunc(tree().Commands(), func(c *cobra.Command) bool { return c.Name() == w }) {
					note(words[i:])
				}
			}
			words = nil
		}
		for _, e := range in {
			if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					words = append(words, strings.Fields(text)...)
				}
				continue
			}
			flush()
		}
		flush()
		return true
	})
	return nil
}

// TestDocuments: the command's strict parser accepts the YAML in the pages.
func TestDocuments(t *testing.T) {
	const begin = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"
	whole, parts := 0, 0
	for _, path := range pages(t) {
		for _, b := range blocks(t, path) {
			if b.lang != "yaml" {
				continue
			}
			text := b.text
			switch {
			case strings.Contains(text, "\nkind: ServerPolicy\n"):
				if _, err := validation.ParseServerPolicy(b.where, []byte(text)); err != nil {
					t.Errorf("%s:%d: %v", b.where, b.line, err)
				}
				continue
			case strings.HasPrefix(text, "apiVersion: naupegos.dev/"):
				whole++
			case strings.HasPrefix(text, "spec:"):
				parts++
				text = begin + text
				if !strings.Contains(text, "\n  provider:") {
					text += "  provider: {local: {}}\n"
				}
				if !strings.Contains(text, "\n  workers:") {
					text += "  workers: [{name: general, replicas: 1}]\n"
				}
			default:
				var v any
				if err := yaml.Unmarshal([]byte(text), &v); err != nil {
					t.Errorf("%s:%d: %v", b.where, b.line, err)
				}
				continue
			}
			if _, err := validation.Parse(b.where, []byte(text)); err != nil {
				t.Errorf("%s:%d: %v", b.where, b.line, err)
			}
		}
	}
	if whole == 0 || parts < 5 {
		t.Fatalf("only %d documents and %d parts of documents were found", whole, parts)
	}
}
