package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

func newExplainCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [FIELD]",
		Short: "Explain a field of the Cluster document",
		Long: `Print what a field of the Cluster document is for: its type, its default, and the fields below it. FIELD is a path as errors
print it, such as spec.workers or spec.workers[0].taints; without it the document itself is explained.`,
		Example: "  naupegos explain spec\n  naupegos explain spec.endpoint.gateways",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return v1alpha1.FieldPaths(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) == 1 {
				path = args[0]
			}
			text, err := v1alpha1.Explain(path)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Out, text)
			return err
		},
	}
}
