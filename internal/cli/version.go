package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// version is stamped by the linker (-X); a plain `go build` says "dev".
var version = "dev"

func newVersionCmd(a *App) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of naupegos",
		Example: "  naupegos version\n  naupegos version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return out.print(a.Out, v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "naupegos %s (%s, %s)\n", version, v["go"], v["platform"])
				return err
			})
		},
	}
	out.bind(c)
	return c
}
