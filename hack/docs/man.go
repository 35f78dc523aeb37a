package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/naupegos/naupegos/internal/cli"
)

// share writes man pages of all commands and the completions of shells into dir, which is a system's share.
func share(dir string) error {
	man, bash := filepath.Join(dir, "man/man1"), filepath.Join(dir, "bash-completion/completions")
	zsh, fish := filepath.Join(dir, "zsh/site-functions"), filepath.Join(dir, "fish/vendor_completions.d")
	for _, d := range []string{man, bash, zsh, fish} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root := cli.New(&cli.App{})
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Title: "NAUPEGOS", Section: "1", Source: "Naupegos", Manual: "Naupegos"}, man),
		root.GenBashCompletionFileV2(filepath.Join(bash, "naupegos"), true),
		root.GenZshCompletionFile(filepath.Join(zsh, "_naupegos")),
		root.GenFishCompletionFile(filepath.Join(fish, "naupegos.fish"), true))
}
