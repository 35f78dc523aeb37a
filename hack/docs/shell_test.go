package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/cli"
)

// shown is a command line in the documentation.
type shown struct {
	where string // FILE:LINE, or the command in whose help it occurs
	words []string
}

// block is a fenced block of a page.
type block struct {
	where string
	line  int
	lang  string
	text  string
}

// pages returns the handwritten Markdown files.
func pages(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), generated) {
				files = append(files, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 30 {
		t.Fatalf("only %d pages were found: this test looks in the wrong place", len(files))
	}
	return append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "test", "openstack", "README.md"))
}

// blocks returns the fenced blocks of a page.
func blocks(t *testing.T, path string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case ok && b == nil:
			b = &block{where: strings.TrimPrefix(path, root+"/"), line: i + 1, lang: fence}
		case ok:
			all = append(all, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		}
	}
	if b != nil {
		t.Errorf("%s:%d: the block does not end", b.where, b.line)
	}
	return all
}

// lines parses shell and returns the naupegos command lines in it.
func lines(where string, first int, text string) (all []shown, err error) {
	file, err := syntax.NewParser(syntax.KeepComments(false)).Parse(strings.NewReader(text), where)
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var words []string
		for _, w := range call.Args {
			words = append(words, plain(w))
		}
		// sudo -E naupegos, time naupegos: the words before the command belong to another program.
		at := slices.IndexFunc(words, func(w string) bool { return w == "naupegos" || strings.HasSuffix(w, "/naupegos") })
		if at == 0 || at > 0 && slices.Contains([]string{"sudo", "exec", "time", "env"}, words[0]) {
			all = append(all, shown{fmt.Sprintf("%s:%d", where, first+int(call.Pos().Line())), words[at+1:]})
		}
		return true
	})
	return all, nil
}

// plain returns the value of a word. Parts that the shell would expand become 1, which is valid both as a number and as a name.
func plain(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\\n", ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(plain(&syntax.Word{Parts: p.Parts}))
		default:
			b.WriteString("1")
		}
	}
	return b.String()
}

// fromPages returns all command lines of the pages.
func fromPages(t *testing.T) (all []shown) {
	t.Helper()
	for _, path := range pages(t) {
		for _, b := range blocks(t, path) {
			if b.lang != "sh" {
				continue
			}
			found, err := lines(b.where, b.line, b.text)
			if err != nil {
				t.Errorf("%s:%d: the block is no shell: %v", b.where, b.line, err)
			}
			all = append(all, found...)
		}
	}
	if len(all) < 100 {
		t.Fatalf("only %d command lines were found in the pages", len(all))
	}
	return all
}

// fromHelp returns all command lines of help texts.
func fromHelp(t *testing.T) (all []shown) {
	t.Helper()
	for _, c := range commandTree() {
		// In prose, two leading blanks mark a command to type; two more blanks may separate it from its description.
		var prose []string
		for line := range strings.SplitSeq(c.Long, "\n") {
			if typed, ok := strings.CutPrefix(line, "  naupegos"); ok {
				typed, _, _ = strings.Cut(typed, "   ")
				prose = append(prose, "naupegos"+typed)
			}
		}
		for _, text := range []string{c.Example, strings.Join(prose, "\n")} {
			found, err := lines(c.CommandPath()+" --help", 0, text)
			if err != nil {
				t.Errorf("%s: the examples are no shell: %v", c.CommandPath(), err)
			}
			all = append(all, found...)
		}
	}
	return all
}

// tree is the user's command tree. It is built only once because it is large.
var tree = sync.OnceValue(func() *cobra.Command {
	c := cli.New(&cli.App{})
	c.InitDefaultCompletionCmd()
	return c
})

// forget resets the flags to their state before a command line was parsed.
func forget(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		f.Changed = false
		if list, ok := f.Value.(pflag.SliceValue); ok {
			_ = list.Replace(nil)
		} else {
			_ = f.Value.Set(f.DefValue) // a flag that calls a function has no value and refuses its default
		}
	})
}

// commandTree returns every visible command that does something.
func commandTree() (all []*cobra.Command) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(tree())
	return all
}

// leaves returns the commands that do something by themselves, without cobra's own completion and help.
func leaves() (all []*cobra.Command) {
	for _, c := range commandTree() {
		top := strings.Fields(c.CommandPath() + " ")
		if len(top) < 2 || top[1] == "completion" || top[1] == "help" || c.HasAvailableSubCommands() && !c.Runnable() || groupOnly(c) {
			continue
		}
		all = append(all, c)
	}
	return all
}

// groupOnly reports whether a command only groups subcommands: by itself it shows its help, and arguments belong to its subcommands.
func groupOnly(c *cobra.Command) bool { return c.HasAvailableSubCommands() && c.DisableFlagsInUseLine }

// parse returns what is wrong with a command line.
func parse(words []string) (*cobra.Command, error) {
	top := tree()
	c, rest, err := top.Find(words)
	if err != nil {
		return nil, err
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	if c.DisableFlagParsing {
		return c, nil
	}
	defer forget(c)
	if err := c.ParseFlags(rest); err != nil {
		return c, err
	}
	hidden := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden && f.Changed {
			hidden = f.Name
		}
	})
	if hidden != "" {
		return c, fmt.Errorf("the help of %s does not list --%s", c.CommandPath(), hidden)
	}
	if asked, err := c.Flags().GetBool("help"); err == nil && asked {
		return c, nil
	}
	if c == top && len(c.Flags().Args()) > 0 {
		return c, fmt.Errorf("there is no command %q", c.Flags().Args()[0])
	}
	if groupOnly(c) && len(c.Flags().Args()) > 0 {
		return c, fmt.Errorf("%s has no command %q", c.CommandPath(), c.Flags().Args()[0])
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return c, err
	}
	if err := c.ValidateRequiredFlags(); err != nil {
		return c, err
	}
	return c, c.ValidateFlagGroups()
}
