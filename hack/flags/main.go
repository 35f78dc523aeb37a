// Command flags writes the tables of internal/release/flags from a release's own programs and module sources:
//
//	go run ./hack/flags VERSION            takes the programs from the bundle of that release in the local library
//	go run ./hack/flags VERSION DIRECTORY  takes the programs from a directory, for a release that has no bundle there
//
// Flags and feature gates come from each program's --help text; the gates that it does not print (GA, deprecated and locked ones) come from a list in
// the module k8s.io/kubernetes; the fields of configuration files come from the modules' Go types.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/release"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("usage: flags VERSION [DIRECTORY]")
	}
	version := args[0]
	var dir string
	if len(args) == 2 {
		dir = args[1]
	} else {
		temp, err := os.MkdirTemp("", "flags-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		if err := unpack(ctx, version, temp); err != nil {
			return err
		}
		dir = temp
	}
	text, err := tableText(ctx, version, dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("internal/release/flags/tables", release.MinorOf(version)+".txt"), text, 0o644)
}
