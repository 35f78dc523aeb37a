package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// completeNames has shells complete the names of clusters and machines, for c and all below it.
func completeNames(c *cobra.Command, a *App) {
	_, arguments, _ := strings.Cut(strings.Trim(c.Use, " "), " ")
	if strings.HasPrefix(strings.Trim(arguments, "["), "NAME") && c.ValidArgsFunction == nil {
		machines := strings.Contains(arguments, "MACHINE")
		several := strings.Contains(arguments, "MACHINE...")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			switch {
			case len(args) == 0:
				names = a.clusterNames(c.Context())
			case machines && (len(args) == 1 || several):
				names = a.machineNames(c.Context(), args[0])
				names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args[1:], n) })
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range c.Commands() {
		completeNames(sub, a)
	}
}

// clusterNames lists the clusters in the store. Completion has no way to tell an error: nothing is completed then.
func (a *App) clusterNames(ctx context.Context) []string {
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil
	}
	defer st.Close()
	all, err := st.Clusters(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// machineNames lists the machines that a cluster's stored document wants.
func (a *App) machineNames(ctx context.Context, cluster string) []string {
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil
	}
	defer st.Close()
	rec, err := st.Cluster(ctx, cluster)
	if err != nil {
		return nil
	}
	doc, err := v1alpha1.Parse("the stored document", rec.Document)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range doc.Machines() {
		names = append(names, m.Name)
	}
	return names
}
