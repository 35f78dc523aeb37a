package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// exitChanges is what plan exits with when there are changes.
const exitChanges exitCode = 2

func newPlanCmd(a *App) *cobra.Command {
	var file string
	var out output
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what apply would do, and change nothing",
		Long: `Compare the document with what is there and print the steps that apply would carry out: what is created, changed,
replaced or destroyed, and why.

Exit status: 0 where nothing is to do, 2 where there are changes, another one for errors.`,
		Example: `  naupegos plan -f cluster.yaml
  naupegos plan -f cluster.yaml -o json | jq '.steps[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), file, &out) },
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	out.bind(c)
	return c
}

func (a *App) plan(ctx context.Context, file string, out *output) error {
	doc, _, err := a.readDocument(file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{readOnly: true, bundle: haveBundle})
	if err != nil {
		return err
	}
	defer s.Close()
	ap, err := s.cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	err = out.print(a.Out, ap.Plan, func(w io.Writer) error {
		if err := ap.Plan.WriteText(w, a.Color(w)); err != nil || !ap.More {
			return err
		}
		_, err := fmt.Fprintln(w, ap.Later())
		return err
	})
	if err == nil && !ap.Plan.Empty() {
		return exitChanges
	}
	return err
}
