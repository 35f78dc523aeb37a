// Package cli is the operator's command: one file a verb, flags in, one call, output out.
//
// It holds no logic of its own beyond reading flags and printing; what a verb does lies in the packages it calls.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/tool"
)

// App carries what every verb needs from the outside: streams, where state lies, and the log.
type App struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // progress, warnings and errors

	StateDir string // this user's own directory; empty: the default
	StoreURL string // of the database that several people share; empty: $NAUPEGOS_STORE, else one in StateDir
	NoColor  bool

	logging logFlags
}

// Color reports whether w is a terminal that wants colour.
func (a *App) Color(w io.Writer) bool { return !a.NoColor && show.WantColor(w) }

// New returns the whole command tree.
func New(a *App) *cobra.Command {
	root := &cobra.Command{
		Use:   "naupegos",
		Short: "Build and keep highly available Kubernetes clusters",
		Long: `naupegos builds highly available Kubernetes clusters on this machine, on hosts you name and in OpenStack clouds, from
one short YAML document, and keeps them right afterwards.

Start with:
  naupegos init > cluster.yaml      write a document
  naupegos plan -f cluster.yaml     see what would be done
  naupegos apply -f cluster.yaml    do it`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.NoColor { // the observers of plans read it, and so do the programs that verbs run
				if err := os.Setenv("NO_COLOR", "1"); err != nil {
					return err
				}
			}
			return a.startLog(c.CommandPath())
		},
	}
	root.SetVersionTemplate("naupegos {{.Version}}\n")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().StringVar(&a.StateDir, "state-dir", a.StateDir, "this user's directory: the store, and what is not shared (default $XDG_STATE_HOME/naupegos)")
	root.PersistentFlags().StringVar(&a.StoreURL, "store", "", "the store of a team: a PostgreSQL database, postgres://USER@HOST/DATABASE (default $NAUPEGOS_STORE, else a file in the state directory)")
	root.PersistentFlags().BoolVar(&a.NoColor, "no-color", a.NoColor, "plain output, as with NO_COLOR")
	a.logging.bind(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fail.Wrap(fail.Invalid, err, "command line").Do("see %s --help", c.CommandPath())
	})
	addVerbs(root, a)
	return root
}

// Main runs the command and returns its exit status (docs/reference/exit-codes.md).
func Main(ctx context.Context, a *App, args []string) int {
	began := time.Now()
	code, err := a.run(ctx, args)
	a.endLog(err, code, time.Since(began))
	return code
}

// run runs the command, and tells of its error.
func (a *App) run(ctx context.Context, args []string) (int, error) {
	root := New(a)
	root.SetArgs(args)
	verb, err := root.ExecuteContextC(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &code):
		return int(code), nil
	}
	if f := verb.Flags().Lookup("output"); f == nil || f.Value.String() != "json" {
		fmt.Fprintf(a.Err, "naupegos: %s\n", tool.Printable(err.Error())) // a machine may have written a part of it
	} else if e := writeJSON(a.Err, failureOf(err)); e != nil {
		fmt.Fprintf(a.Err, "naupegos: %v\n", errors.Join(err, e))
	}
	return fail.KindOf(err).ExitCode(), err
}

// exitCode ends the command with a status that is not an error, such as "there are changes".
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// output is the -o flag of verbs that list something.
type output struct{ format string }

// bind adds -o to a verb.
func (o *output) bind(c *cobra.Command) {
	c.Flags().StringVarP(&o.format, "output", "o", "table", "output format: table, json or yaml")
}

// isTable reports whether people are to read the output.
func (o *output) isTable() bool { return o.format == "table" || o.format == "" }

// print writes v as JSON or YAML, or calls table.
func (o *output) print(w io.Writer, v any, table func(io.Writer) error) error {
	switch o.format {
	case "table", "":
		return table(w)
	case "json":
		return writeJSON(w, v)
	case "yaml":
		b, err := versioned(v)
		if err == nil {
			b, err = yaml.JSONToYAML(b)
		}
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = w.Write(b)
		return err
	}
	return fail.New(fail.Invalid, "--output %q", o.format).Do("use table, json or yaml")
}
