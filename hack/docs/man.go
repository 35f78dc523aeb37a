package main

import (
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/naupegos/naupegos/internal/cli"
)

// man writes man pages of all commands into dir.
func man(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.New(&cli.App{})
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Title: "NAUPEGOS", Section: "1", Source: "Naupegos", Manual: "Naupegos"}, dir)
}
