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
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/server/access"
)

// checkArguments has wrong arguments and unknown commands end as invalid input, as wrong flags do, for c and all below it.
func checkArguments(c *cobra.Command) {
	switch check := c.Args; {
	case !c.Runnable() && c.HasSubCommands():
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		}
	case check != nil:
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return fail.New(fail.Invalid, "%s: %s", c.CommandPath(), wrongArguments(c, args, err)).Do("usage: %s", c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArguments(sub)
	}
}

// wrongArguments says which argument is missing or too much, by the names that the usage gives them.
func wrongArguments(c *cobra.Command, args []string, err error) string {
	required := requiredArguments(c.Use)
	switch {
	case len(args) < len(required):
		return strings.Join(required[len(args):], " and ") + " missing"
	case len(args) > 0:
		return fmt.Sprintf("%q is one argument too many", args[len(args)-1])
	}
	return err.Error()
}

// requiredArguments lists the names of the arguments that a usage asks for; flags with their values and what is in brackets are left out.
func requiredArguments(use string) (names []string) {
	optional, flag := false, false
	for _, word := range strings.Fields(use)[1:] {
		optional = optional || strings.HasPrefix(word, "[")
		switch {
		case flag:
			flag = false
		case word == "--":
		case strings.HasPrefix(word, "-"):
			flag = true
		case !optional:
			names = append(names, strings.TrimSuffix(word, "..."))
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return names
}

func unknownCommand(c *cobra.Command, name string) error {
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	err := fail.New(fail.Invalid, "%s has no command %q", c.CommandPath(), name)
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return err.Do("did you mean %s?", strings.Join(near, " or "))
	}
	return err.Do("see %s --help", c.CommandPath())
}

// otherWords are what people type who know other tools, by the verb that they mean.
var otherWords = map[string][]string{
	"apply": {"create", "up", "build", "update"}, "destroy": {"delete", "down", "remove", "rm"}, "status": {"get", "list", "ls", "describe", "show"},
	"init": {"new", "generate"}, "validate": {"check", "lint"}, "plan": {"preview"}, "ssh": {"exec", "shell"},
}

// suggestForOtherWords has each verb suggested to those who type another tool's word for it.
func suggestForOtherWords(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.SuggestFor = append(c.SuggestFor, otherWords[c.Name()]...)
	}
}

// helpCommand is cobra's own, except that help on what does not exist is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command", Example: "  naupegos help node replace",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range at.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			at, rest, err := root.Find(args)
			switch {
			case err != nil:
				return unknownCommand(root, args[0])
			case len(rest) > 0:
				return unknownCommand(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// flagValues are the values of flags that take one of a few, by the names of the verb and of the flag.
func flagValues(verb, flag string) []string {
	switch verb + " --" + flag {
	case "create --role": // of a token
		return access.Roles()
	case "upgrade --to":
		return release.Versions()
	}
	switch flag {
	case "progress":
		return progressNames()
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
		return []string{bundle.AddonOpenStack}
	case "format":
		return []string{image.QCOW2, image.Raw}
	case "output":
		return []string{"table", "json", "yaml"}
	}
	return nil
}

// completeValues has shells complete the values of flags, of c and all below it.
func completeValues(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := flagValues(c.Name(), f.Name)
		if given, ok := f.Value.(*flags.Consents); ok {
			values = given.Known // each verb takes its own
		}
		if values != nil {
			// It fails only for a flag that has a completion already.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// completionTime bounds looking into the store for names: a team's may be far away.
const completionTime = 3 * time.Second

// completeNames has shells complete the names of clusters, machines, bundles and runs, for c and all below it.
func completeNames(c *cobra.Command, a *App) {
	_, arguments, _ := strings.Cut(strings.Trim(c.Use, " "), " ")
	if strings.HasPrefix(arguments, "BUNDLE") {
		several := strings.Contains(arguments, "BUNDLE...")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 || several {
				return a.bundleNames(c), cobra.ShellCompDirectiveNoFileComp
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
				names = a.clusterNames(c.Context())
			case machines && (len(args) == 1 || several):
				names = a.machineNames(c.Context(), args[0])
				names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args[1:], n) })
			case strings.Contains(arguments, "[RUN]") && len(args) == 1:
				names = a.runNames(c.Context(), args[0])
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range c.Commands() {
		completeNames(sub, a)
	}
}

// clusterNames is storedNames for completion, which has no way to tell an error: nothing is completed then.
func (a *App) clusterNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	names, err := a.storedNames(ctx)
	if err != nil {
		return nil
	}
	return names
}

// storedNames lists the clusters in the store, or a server's.
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

// bundleNames lists the IDs of bundles, with what they are.
func (a *App) bundleNames(c *cobra.Command) []string {
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

// runNames lists the runs on a cluster, the last one first.
func (a *App) runNames(ctx context.Context, cluster string) []string {
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
