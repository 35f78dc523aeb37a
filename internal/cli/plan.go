package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/savedplan"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server/api"
)

// exitChanges is the exit status of plan if there are changes.
const exitChanges exitCode = 2

// planFlags are the flags of plan.
type planFlags struct {
	file, save           string
	destroy, keepVolumes bool
	diff                 bool
	only                 flags.Parts
	out                  output.Format
}

func newPlanCmd(a *App) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Show what apply or destroy would do, without changing anything",
		Long: `Compare the document with what exists and print the steps that apply would carry out: what it would create, change,
replace or destroy, and why. The names, networks and addresses in the plan are the ones that apply uses. Fields of the
document, labels and other values are shown as old -> new; --diff also shows the lines of files that change. Contents of
secrets are never shown. naupegos diff prints the differences alone.

--out saves the plan to a file. naupegos apply PLAN then carries out exactly that plan, without asking, and refuses
if anything has changed in the meantime. The file holds the document and the plan, but no secrets. The bundle is
pulled or built first if it is not in the library.

--only plans a part of the cluster, and lists below the plan what is left out.
plan NAME compares the document that was applied last. A server wants the role read for that, operate for a document.
--destroy plans what naupegos destroy would do to the cluster NAME, or to the one that FILE describes.

Exit status: 0 if there is nothing to do, 2 if there are changes, any other on errors. If apply would not begin, as with a
host that can't be used, the plan is printed, and the exit status is that of apply.`,
		Example: `  naupegos plan -f cluster.yaml
  naupegos plan -f cluster.yaml -o json | jq '.steps[].id'
  naupegos plan -f cluster.yaml --out cluster.plan
  naupegos plan demo
  naupegos plan --destroy demo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.destroy && f.only != nil:
				return fail.New(fail.Invalid, "--only and --destroy exclude each other").Do("destroy removes all parts of a cluster")
			case f.destroy:
				return a.planDestroy(cmd.Context(), args, &f)
			case f.keepVolumes:
				return fail.New(fail.Invalid, "--keep-volumes needs --destroy")
			case len(args) > 0 && (f.file != "" || f.save != "" || strings.ContainsAny(args[0], "./")):
				return fail.New(fail.Invalid, "plan %s takes no -f and no --out, and only a cluster's name", args[0]).Do("-f FILE names a document; naupegos document NAME writes the stored one")
			case len(args) > 0:
				return planOf(cmd.Context(), a, operate.Asked{Verb: operate.Apply, Cluster: args[0], Only: f.only}, &f)
			}
			return a.plan(cmd.Context(), &f)
		},
	}
	c.Flags().StringVarP(&f.file, "file", "f", "", "the Cluster document; - for standard input")
	c.Flags().StringVar(&f.save, "out", "", "save the plan to this file, for naupegos apply PLAN")
	c.Flags().BoolVar(&f.destroy, "destroy", false, "plan what naupegos destroy would do")
	c.Flags().BoolVar(&f.keepVolumes, "keep-volumes", false, "with --destroy: keep the volumes of PersistentVolumeClaims, as naupegos destroy --keep-volumes does")
	c.Flags().Var(&f.only, "only", f.only.Usage())
	c.Flags().BoolVar(&f.diff, "diff", false, "show the lines of files that change, as -v does")
	f.out.Bind(c)
	return c
}

func (a *App) plan(ctx context.Context, f *planFlags) error {
	doc, data, err := a.readDocument(f.file)
	if err != nil {
		return err
	}
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		return a.planAfar(ctx, c, doc, data, f)
	}
	if err := bundles.CheckRelease(ctx, doc); err != nil {
		return located(err, f.file, data)
	}
	o := sessionOptions{readOnly: true, bundle: bundles.IfHere}
	if f.save != "" { // apply has the bundle, and the machines' files depend on it
		o.bundle = bundles.Made
		o.foresee = foresee(a, operate.Asked{Verb: operate.Apply, Document: string(data), From: shownFile(f.file), Only: f.only}, nil, nil)
	}
	s, err := a.openDocument(ctx, doc, o)
	if err != nil {
		return located(err, f.file, data)
	}
	defer s.Close()
	s.Cluster.Only(f.only)
	ap, err := s.Cluster.PlanApply(ctx)
	if err == nil {
		err = operate.Recall(ctx, s.Store, ap.Plan)
	}
	if err != nil {
		return err
	}
	if f.save != "" {
		if err := savedplan.Write(f.save, version, s.Session, data, f.only, ap); err != nil {
			return err
		}
		fmt.Fprintf(a.Err, "The plan is saved: naupegos apply %s carries it out.\n", f.save)
	}
	return a.printPlan(ap.Plan, ap.Later(), ap.Unready, &f.out, f.diff)
}

// planOf shows the plan of a request.
func planOf(ctx context.Context, a *App, asked operate.Asked, f *planFlags) error {
	p, later, unready, err := foreseen(ctx, a, asked)
	if err != nil {
		return err
	}
	return a.printPlan(p, later, unready, &f.out, f.diff)
}

// planAfar shows a server's plan.
func (a *App) planAfar(ctx context.Context, c *client.Client, doc *v1alpha1.Cluster, data []byte, f *planFlags) error {
	asked := operate.Asked{Verb: operate.Apply, Document: string(data), From: shownFile(f.file), Only: f.only}
	got, p, err := a.planned(ctx, c, api.PlanRequest{Asked: asked, Prepare: f.save != ""})
	if err != nil {
		return located(err, f.file, data)
	}
	if f.save != "" {
		if err := savedplan.WriteAgreed(f.save, version, savedplan.Plan{
			Cluster: doc.Metadata.Name, ClusterID: got.ClusterID, New: got.New, Document: string(data), Only: f.only, More: got.Later != "", Plan: got.Plan,
			Agreed: &savedplan.Agreed{Asked: got.Asked, Digest: got.Digest},
		}); err != nil {
			return err
		}
		fmt.Fprintf(a.Err, "The plan is saved: naupegos apply %s sends it to the server.\n", f.save)
	}
	return a.printPlan(p, got.Later, got.Obstacle(), &f.out, f.diff)
}

// planDestroy shows the plan of destroy.
func (a *App) planDestroy(ctx context.Context, args []string, f *planFlags) error {
	if f.save != "" {
		return fail.New(fail.Invalid, "a plan of destroy can't be saved").Do("naupegos destroy shows it and asks")
	}
	if len(args) == 1 && f.file != "" || len(args) == 0 && f.file == "" {
		return fail.New(fail.Invalid, "--destroy needs either a cluster's NAME or -f FILE")
	}
	asked := operate.Asked{Verb: operate.Destroy, KeepVolumes: f.keepVolumes}
	if len(args) == 1 {
		asked.Cluster = args[0]
	} else if doc, _, err := a.readDocument(f.file); err != nil {
		return err
	} else {
		asked.Cluster = doc.Metadata.Name
	}
	return planOf(ctx, a, asked, f)
}

// printPlan prints a plan without executing it, and possible later changes. It returns unready, with which apply would refuse to begin, or exitChanges
// if the plan has steps.
func (a *App) printPlan(p *plan.Plan, later string, unready error, out *output.Format, hunks bool) error {
	err := out.Print(a.Out, show.JSON(p), func(w io.Writer) error {
		if err := show.WriteText(w, show.Unsaid(p, unready), lookOf(a, w, hunks)); err != nil || later == "" {
			return err
		}
		_, err := fmt.Fprintln(w, later)
		return err
	})
	if err == nil && unready == nil && !p.Empty() {
		return exitChanges
	}
	return cmp.Or(err, unready)
}
