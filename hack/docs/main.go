// Command docs generates the parts of docs/reference that come from the code: the Cluster document with its JSON Schema, the commands, the exit
// codes, and the JSON that commands print. Run it at the root of the clone (make docs); its test fails if a committed page is stale.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the clone")
	shareDir := flag.String("share", "", "write man pages and completions into this directory instead")
	flag.Parse()
	do := func() error { return write(*root) }
	if *shareDir != "" {
		do = func() error { return share(*shareDir) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// write regenerates every generated page.
func write(root string) error {
	pages, err := render(root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		path := filepath.Join(root, "docs", "reference", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
