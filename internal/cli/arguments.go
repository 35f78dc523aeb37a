package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/server/access"
)

// flagValues returns the values that a verb's flag accepts; nil if they are not a fixed few.
func flagValues(verb, flag string) []string {
	switch verb + " --" + flag {
	case "create --role": // of a token
		return access.Roles()
	}
	switch flag {
	case "with":
		return sample.Sections()
	case "progress":
		return flags.ProgressNames()
	case "only":
		return strings.Split(parts.Words(parts.All()), ", ")
	case "provider":
		return v1alpha1.Providers()
	case "kubernetes":
		return release.Versions()
	case "etcd":
		return []string{v1alpha1.EtcdStacked, v1alpha1.EtcdService}
	case "endpoint":
		return []string{v1alpha1.EndpointGateways, v1alpha1.EndpointOctavia, v1alpha1.EndpointAddress, v1alpha1.EndpointDirect}
	case "addons":
		return bundle.AddonSets()
	case "format":
		return []string{image.QCOW2, image.Raw}
	case "output":
		return output.Formats()
	}
	return nil
}

// completeFromStore completes flag values from the stored document and the cluster's backups: pools, machines, newer releases, backups.
func completeFromStore(c *cobra.Command, a *App) {
	look := map[string]func(context.Context, string) []string{
		"upgrade --pause-after": func(ctx context.Context, name string) []string { return machineNames(ctx, a, name, false) },
		"node add --pool":       func(ctx context.Context, name string) []string { return poolsOf(storedDocument(ctx, a, name)) },
		"upgrade --pool":        func(ctx context.Context, name string) []string { return poolsOf(storedDocument(ctx, a, name)) },
		"upgrade --to":          func(ctx context.Context, name string) []string { return newerThan(storedDocument(ctx, a, name)) },
		"backup restore --from": func(ctx context.Context, name string) []string { return backupIDs(ctx, a, name) },
	}
	for _, sub := range c.Commands() {
		completeFromStore(sub, a)
		for _, flag := range []string{"pause-after", "pool", "to", "from"} {
			names := look[verbs.Path(sub)+" --"+flag]
			if names == nil {
				continue
			}
			// It fails only for a flag that already has a completion.
			_ = sub.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				cluster, _, _ := a.where.Cluster()
				if len(args) > 0 {
					cluster = args[0]
				}
				ctx, cancel := context.WithTimeout(c.Context(), completionTime)
				defer cancel()
				return names(ctx, cluster), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
}

func poolsOf(doc *v1alpha1.Cluster) (names []string) {
	if doc == nil {
		return nil
	}
	for _, w := range doc.Spec.Workers {
		names = append(names, w.Name)
	}
	return names
}

// newerThan lists the releases that a cluster can be upgraded to; without a document, all releases.
func newerThan(doc *v1alpha1.Cluster) []string {
	all := release.Versions()
	if doc == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return release.Compare(v, doc.Spec.Kubernetes.Version) <= 0 })
}

// backupIDs lists a cluster's backups for completion.
func backupIDs(ctx context.Context, a *App, cluster string) []string {
	b, err := backupsOf(ctx, a, cluster, "")
	if err != nil {
		return nil
	}
	ids := []string{"latest"}
	sets, err := backup.List(ctx, b.Target, cluster)
	if err != nil {
		return ids
	}
	for _, s := range sets {
		ids = append(ids, s.ID)
	}
	return ids
}

// completeValues registers shell completion for the values of flags, of c and all commands below it.
func completeValues(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := flagValues(c.Name(), f.Name)
		if given, ok := f.Value.(*flags.Consents); ok {
			values = given.Known // each verb takes its own
		}
		if values != nil {
			// It fails only for a flag that already has a completion.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// completionTime limits a lookup of names in the store: a team's store may be far away.
const completionTime = 3 * time.Second

// completeNames registers shell completion for the names of clusters, machines, bundles and runs, for c and all commands below it.
func completeNames(c *cobra.Command, a *App) {
	_, arguments, _ := strings.Cut(strings.Trim(c.Use, " "), " ")
	if strings.HasPrefix(arguments, "BUNDLE") {
		several := strings.Contains(arguments, "BUNDLE...")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 || several {
				return bundleNames(a, c), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	if strings.HasPrefix(strings.Trim(arguments, "["), "NAME") && c.ValidArgsFunction == nil {
		machines := strings.Contains(arguments, "MACHINE")
		several := strings.Contains(arguments, "MACHINE...")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			switch {
			case len(args) == 0:
				names = clusterNames(c.Context(), a)
			case machines && (len(args) == 1 || several):
				names = machineNames(c.Context(), a, args[0], slices.Contains([]string{"cordon", "uncordon", "drain"}, c.Name()))
				names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args[1:], n) })
			case strings.Contains(arguments, "[RUN]") && len(args) == 1:
				names = runNames(c.Context(), a, args[0])
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range c.Commands() {
		completeNames(sub, a)
	}
}

// clusterNames is storedNames for completion, which can't report an error: it completes nothing then.
func clusterNames(ctx context.Context, a *App) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	names, err := a.storedNames(ctx)
	if err != nil {
		return nil
	}
	return names
}

// storedNames lists the clusters in the store, or on the server in use.
func (a *App) storedNames(ctx context.Context) (names []string, err error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		rows, err := c.Clusters(ctx, 0)
		for _, r := range rows {
			names = append(names, r.Name)
		}
		return names, err
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	all, err := st.Clusters(ctx)
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names, err
}

// bundleNames lists the IDs of bundles, with descriptions.
func bundleNames(a *App, c *cobra.Command) []string {
	root := ""
	if f := c.Flag("library"); f != nil {
		root = f.Value.String()
	}
	lib, err := bundles.Library(root)
	if err != nil {
		return nil
	}
	all, err := lib.List(c.Context())
	if err != nil {
		return nil
	}
	var names []string
	for _, b := range all {
		names = append(names, b.ID[:12]+"\tKubernetes "+b.Manifest.Title())
	}
	return names
}

// runNames lists the runs on a cluster, the newest first.
func runNames(ctx context.Context, a *App, cluster string) []string {
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil
	}
	defer st.Close()
	all, err := st.Runs(ctx, cluster, 0)
	if err != nil {
		return nil
	}
	names := []string{"last"}
	for _, r := range all {
		names = append(names, fmt.Sprintf("%s\t%s, %s", r.ID, r.Title, r.Outcome))
	}
	return names
}

// storedDocument returns a cluster's document for completion, or nil.
func storedDocument(ctx context.Context, a *App, cluster string) *v1alpha1.Cluster {
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil
	}
	defer st.Close()
	rec, err := st.Cluster(ctx, cluster)
	if err != nil {
		return nil
	}
	doc, _ := validation.Parse("the stored document", rec.Document) // nil with an error
	return doc
}

// machineNames lists the machines of a cluster's stored document; with nodes, only machines that have a node.
func machineNames(ctx context.Context, a *App, cluster string, nodes bool) (names []string) {
	doc := storedDocument(ctx, a, cluster)
	if doc == nil {
		return nil
	}
	for _, m := range doc.Machines() {
		if !nodes || m.Role != v1alpha1.RoleGateway {
			names = append(names, m.Name)
		}
	}
	return names
}

// namesOf returns functions that look up arguments in the store or on the server in use.
func namesOf(a *App) *verbs.Names {
	server := func() bool { at, err := a.where.Now(); return err == nil && at.Server != "" }
	return &verbs.Names{Err: a.Err, Default: a.where.Cluster, Clusters: a.storedNames, Server: server,
		Machines: func(ctx context.Context, cluster string) []string {
			if server() {
				return nil // names are unknown without a look at the cluster
			}
			return machineNames(ctx, a, cluster, false)
		}}
}
