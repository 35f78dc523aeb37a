package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the pages")

const root = "../.."

// TestReference: every committed page matches the code.
func TestReference(t *testing.T) {
	if *update {
		if err := write(root); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := render(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		have, err := os.ReadFile(filepath.Join(root, "docs", "reference", name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(have, want) {
			t.Errorf("docs/reference/%s is stale: run `make docs` and commit it", name)
		}
	}
}

// TestCommands: the generated page describes the commands.
func TestCommands(t *testing.T) {
	page, err := commands()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## naupegos apply\n", "(#naupegos-apply)", "## naupegos bundle build\n", "--progress string", "--state-dir"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("commands.md does not have %q", want)
		}
	}
}

// TestShare: every command has a man page, which names it, and each shell has its completion.
func TestShare(t *testing.T) {
	dir := t.TempDir()
	if err := share(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"man/man1/naupegos.1": ".SH SYNOPSIS", "man/man1/naupegos-apply.1": ".SH SYNOPSIS", "man/man1/naupegos-bundle-build.1": ".SH SYNOPSIS",
		"bash-completion/completions/naupegos": "__start_naupegos", "zsh/site-functions/_naupegos": "#compdef naupegos", "fish/vendor_completions.d/naupegos.fish": "complete -c naupegos",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s lacks %q: %v", name, want, err)
		}
	}
}
