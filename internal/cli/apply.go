package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/savedplan"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server/work"
)

func newApplyCmd(a *App) *cobra.Command {
	var file string
	var f runFlags
	var only flags.Parts
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Create the cluster, or change it to match the document",
		Long: `Compare the document with what exists and make the cluster match it: machines, control plane, workers, network,
DNS. To scale, edit replicas and apply. If apply is interrupted, by a crash or by you, run the same command again:
it continues.

apply prints the plan and asks before it carries it out; with --yes it prints the plan and does not ask. If more
work turns out to be needed later, it prints that and asks again. Nothing is stored, created or reserved until you
agree.

--only limits apply to parts of the cluster, for example where one team runs the machines and another the cluster:
infrastructure (what the provider creates), gateways, cluster (control plane, nodes, pod network), addons (the
cloud's controllers) and test. The plan says what it leaves out. Build the parts of a new cluster in this order:
each needs the ones before it. --only test runs the smoke tests even if nothing has changed.

Given a PLAN that naupegos plan --out saved, apply carries it out without asking. If the cluster has changed since,
apply prints the differences and exits with status 6. Steps that need a consent still need --consent.

The first Ctrl-C lets running steps finish; the second one stops at once. After either, apply continues.`,
		Example: `  naupegos apply -f cluster.yaml
  naupegos apply -f cluster.yaml --yes
  naupegos apply -f cluster.yaml --only infrastructure
  naupegos apply -f - --yes < cluster.yaml
  naupegos plan -f cluster.yaml --out cluster.plan; naupegos apply cluster.plan`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.applyDocument(cmd.Context(), file, only, &f)
			case only != nil:
				return fail.New(fail.Invalid, "--only and the saved plan %s exclude each other", args[0]).Do("naupegos plan --only --out saves the plan of a part")
			case f.dry:
				return fail.New(fail.Invalid, "--dry-run and the saved plan %s exclude each other", args[0]).Do("naupegos apply -f DOCUMENT --dry-run plans again")
			case file != "":
				return fail.New(fail.Invalid, "-f %s and %s exclude each other", file, args[0]).Do("-f names a document, an argument a saved plan")
			}
			return a.applySaved(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	c.Flags().Var(&only, "only", only.Usage())
	f.bind(c)
	return c
}

func (a *App) applyDocument(ctx context.Context, file string, only []parts.Part, f *runFlags) error {
	doc, data, err := a.readDocument(file)
	if err != nil {
		return err
	}
	asked := operate.Asked{Verb: operate.Apply, Document: string(data), From: shownFile(file), Only: only, NewBundle: f.consents.Has(env.ConsentBundle)}
	first, done, err := a.carry(ctx, &verb{asked: asked, flags: f})
	if err != nil {
		return located(err, file, data)
	}
	return a.applied(doc.Metadata.Name, file, only, first, done)
}

// applySavedAfar lets a server execute its saved plan.
func (a *App) applySavedAfar(ctx context.Context, c *client.Client, file string, saved *savedplan.Plan, f *runFlags) error {
	first, err := show.Parse(saved.Plan)
	if err != nil {
		return err
	}
	v := &afar{app: a, server: c, verb: &verb{asked: saved.Agreed.Asked, flags: f}}
	done, err := v.carryOutAgreed(ctx, first, saved.Agreed.Digest)
	if err != nil {
		return err
	}
	return a.applied(saved.Cluster, "the document in "+file, saved.Only, first, done)
}

// apply executes plans, from the first one on, until the cluster conforms to the document, and prints the result.
func (a *App) apply(ctx context.Context, file string, b *operate.Begun, t operate.Terms) error {
	done, err := b.CarryOut(ctx, t)
	if err != nil {
		return err
	}
	return a.applied(b.Record.Name, file, b.Asked.Only, b.First.Plan, done)
}

// applied prints the result of an apply.
func (a *App) applied(name, file string, only []parts.Part, first *plan.Plan, done operate.Done) error {
	switch {
	case only != nil:
		return a.partDone(name, file, only, first, done.Changed)
	case !done.Changed:
		_, err := fmt.Fprintf(a.Out, "No changes: cluster %s is as %s says.\n", name, file)
		return err
	}
	return a.handOver(name, done)
}

// partDone prints that parts of the cluster conform to the document.
func (a *App) partDone(name, file string, only []parts.Part, first *plan.Plan, changed bool) error {
	if changed {
		_, err := fmt.Fprintf(a.Out, "Done: cluster %s, %s. naupegos plan -f %s says whether there is more.\n", name, parts.Words(only), file)
		return err
	}
	text := fmt.Sprintf("No changes: cluster %s, %s is as %s says.\n", name, parts.Words(only), file)
	for _, what := range first.LeftOut { // an empty plan is not shown
		text += "Left out: " + what + ".\n"
	}
	_, err := io.WriteString(a.Out, text)
	return err
}

// handOver prints how the apply ended, and for a new cluster, further commands.
func (a *App) handOver(name string, done operate.Done) error {
	took := done.Took(a.bundled)
	if !done.Created {
		_, err := io.WriteString(a.Out, done.Ended(name, "as wanted", took))
		return err
	}
	_, err := fmt.Fprintf(a.Out, `Cluster %[1]s is up (%[2]s).

  naupegos kubectl %[1]s -- get nodes      kubectl from the bundle, as administrator
  naupegos kubeconfig %[1]s --merge        for your own kubectl: context %[1]s
  naupegos status %[1]s                    machines, nodes, etcd, certificates
  naupegos ssh %[1]s MACHINE               a shell on a machine
  naupegos history %[1]s                   what was done, with times
`, name, took)
	return err
}

// applySaved executes a saved plan, which was reviewed. It asks only if more turns out to be needed afterwards.
func (a *App) applySaved(ctx context.Context, file string, f *runFlags) (err error) {
	saved, doc, err := savedplan.Read(file)
	if err != nil {
		return err
	}
	switch c, err := a.server(); {
	case err != nil:
		return err
	case c != nil && saved.Agreed == nil:
		return fail.New(fail.Refused, "the saved plan was made by this command, and a server is named").At(file).Do("plan again with --server, or leave out --server and $NAUPEGOS_SERVER")
	case c != nil:
		return a.applySavedAfar(ctx, c, file, saved, f)
	case saved.Agreed != nil:
		return fail.New(fail.Refused, "the saved plan was made by a server").At(file).Do("name the server by --server or $NAUPEGOS_SERVER")
	}
	from := "the document in " + file
	asked := operate.Asked{Verb: operate.Apply, Document: saved.Document, From: from, ClusterID: saved.ClusterID, Only: saved.Only, NewBundle: f.consents.Has(env.ConsentBundle)}
	b, err := a.begin(ctx, asked, work.Need{CarryOut: true}, nil, nil)
	if err != nil {
		return located(err, from, []byte(saved.Document))
	}
	defer func() { err = b.CloseWith(err) }()
	if err := saved.Check(b.Session, b.First); err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Reviewed = true
	return a.apply(ctx, file, b, t)
}
