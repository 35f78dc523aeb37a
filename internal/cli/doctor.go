package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/userdir"
)

func newDoctorCmd(a *App) *cobra.Command {
	var out output.Format
	var file string
	c := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Check what naupegos needs: host, credentials, agent, bundle, store",
		Long: `Check this host and what naupegos needs, and say what to do about each problem. Nothing is changed.

Without a document, check what any cluster needs, and whether this host can run local machines. With NAME or -f FILE,
check what that cluster needs from its provider: memory, disk and subnet of this host, quota and flavors of the
cloud, and whether existing machines answer. With --server, check the server, and let it check NAME from where it
runs.

Exit status: 0 if nothing fails, 4 if something does.`,
		Example: "  naupegos doctor\n  naupegos doctor -f cluster.yaml\n  naupegos doctor demo -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" && len(args) > 0 {
				return fail.New(fail.Invalid, "NAME and -f exclude each other").Do("the document says which cluster it is")
			}
			checks, err := examine(cmd.Context(), a, strings.Join(args, ""), file)
			if err != nil {
				return err
			}
			return printChecks(a, checks, &out)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "check for the cluster in this document; - for standard input")
	out.Bind(c)
	return c
}

// failing returns the error with the exit status if a check fails, else nil.
func failing(checks []provider.Check) error {
	for _, check := range checks {
		if check.Result == provider.Failing {
			return exitCode(fail.Refused.ExitCode())
		}
	}
	return nil
}

// check returns the check for a result.
func check(name, detail string, err error) provider.Check {
	if err != nil {
		return provider.Check{Name: name, Result: provider.Failing, Detail: fail.Whole(err).Error()}
	}
	return provider.Check{Name: name, Result: provider.Fine, Detail: detail}
}

// examine checks everything, for one cluster or in general.
func examine(ctx context.Context, a *App, name, file string) ([]provider.Check, error) {
	c, err := a.server()
	switch {
	case err != nil:
		return nil, err
	case c != nil && file != "":
		return nil, fail.New(fail.Refused, "-f is checked from this host, but a server is named").Do("leave out -f, or --server and $NAUPEGOS_SERVER")
	case c != nil:
		return examineAfar(ctx, a, c, name), nil
	}
	return examineHere(ctx, a, name, file), nil
}

// examineAfar checks a server, and lets it check the needs of one of its clusters.
func examineAfar(ctx context.Context, a *App, c *client.Client, name string) []provider.Check {
	checks := []provider.Check{check("naupegos", "version "+version, nil)}
	at, err := c.Server(ctx)
	if err != nil {
		return append(checks, check("server", "", err))
	}
	checks = append(checks, check("server", fmt.Sprintf("%s: servers: %d, clusters: %d", c.Where(), len(at.Servers), at.Clusters), nil))
	if name == "" {
		return checks
	}
	got, err := client.See(ctx, c, name, operate.Checks, operate.Plainly{})
	if err != nil {
		return append(checks, check("cluster "+name, "", err))
	}
	return append(checks, got.Items...)
}

func examineHere(ctx context.Context, a *App, name, file string) []provider.Check {
	path, err := findAgent()
	checks := []provider.Check{check("naupegos", "version "+version, nil), check("agent", path, err)}
	doc, of, err := examined(ctx, a, name, file)
	checks = append(checks, checkStore(ctx, a))
	for _, p := range userdir.Places() {
		checks = append(checks, check(p.Name, p.Dir, p.Try()))
	}
	if of != "" {
		checks = append(checks, check("document", of, err))
	}
	if err != nil {
		return checks
	}
	checks = append(checks, checkBundle(ctx, a, doc))
	if doc == nil || doc.Spec.Provider.Local != nil {
		host, err := local.CheckHost()
		if err != nil {
			host = []provider.Check{check("host", "", err)}
		}
		checks = append(checks, host...)
	}
	if doc == nil {
		return append(checks, cloud.CheckLogin(ctx))
	}
	if doc.Spec.Provider.Local != nil && os.Geteuid() != 0 {
		return checks // the other checks require root, which the host's checks report
	}
	return append(checks, checkCluster(ctx, a, name, doc)...)
}

// examined returns the document to check, and its origin; no document is not an error.
func examined(ctx context.Context, a *App, name, file string) (doc *v1alpha1.Cluster, of string, err error) {
	switch {
	case file != "":
		doc, _, err = a.readDocument(file)
		return doc, file, err
	case name != "":
		data, err := lastApplied(ctx, a, name)
		if err != nil {
			return nil, name, err
		}
		doc, err = validation.Parse("the stored document of "+name, data)
		return doc, "the stored document of " + name, err
	}
	return nil, "", nil
}

// storeRoom is the least room on the disk with which the store can record a few runs.
const storeRoom = 4 << 20

// checkStore opens the store, and tries whether its directory can be written to.
func checkStore(ctx context.Context, a *App) provider.Check {
	st, err := a.viewStore(ctx)
	if err != nil {
		return check("store", "", err)
	}
	defer st.Close()
	all, err := st.Clusters(ctx)
	if err == nil {
		err = userdir.Try(st.Dir(), storeRoom)
	}
	return check("store", fmt.Sprintf("%s: clusters: %d", st.Where(), len(all)), err)
}

// checkBundle looks for the bundle of a document, or of a new one. If it is missing, building it requires certain programs.
func checkBundle(ctx context.Context, a *App, doc *v1alpha1.Cluster) provider.Check {
	const name = "bundle"
	kubernetes, addons := v1alpha1.LatestKubernetes, []string(nil)
	if doc != nil {
		kubernetes, addons = doc.Spec.Kubernetes.Version, bundles.AddonsOf(doc)
	}
	lib, err := bundles.Library("")
	if err != nil {
		return check(name, "", err)
	}
	b, err := lib.Find(ctx, kubernetes, addons...)
	if err == nil {
		return check(name, fmt.Sprintf("Kubernetes %s: %s", b.Manifest.Title(), b.ID[:12]), nil)
	}
	if fail.KindOf(err) != fail.NotFound {
		return check(name, "", err)
	}
	for _, program := range []string{"go", "apt-get", "dpkg-deb"} {
		if _, lookErr := exec.LookPath(program); lookErr != nil {
			return check(name, "", fail.Wrap(fail.NotFound, err, "there is none, and %s, which is needed to build one, is missing", program).
				Do("install it, or import a bundle that was built elsewhere: naupegos bundle import"))
		}
	}
	return provider.Check{Name: name, Result: provider.Warning,
		Detail: fmt.Sprintf("the bundle of Kubernetes %s is not available here yet: apply gets it first; compiling it takes 10 to 25 minutes on two cores", kubernetes)}
}

// checkCluster checks the needs of one cluster with its provider.
func checkCluster(ctx context.Context, a *App, name string, doc *v1alpha1.Cluster) (checks []provider.Check) {
	o := sessionOptions{look: true, readOnly: true, bundle: bundles.IfHere}
	look := func(s *session) (err error) {
		checks, err = s.Cluster.Check(ctx)
		return err
	}
	if err := onEither(ctx, a, name, doc, o, look); err != nil {
		checks = append(checks, check("cluster "+doc.Metadata.Name, "", err))
	}
	return checks
}

// onEither calls do with the cluster of this name, or, if name is empty, with a document's cluster.
func onEither(ctx context.Context, a *App, name string, doc *v1alpha1.Cluster, o sessionOptions, do func(*session) error) error {
	if name != "" {
		return a.onCluster(ctx, name, o, do)
	}
	s, err := a.openDocument(ctx, doc, o)
	if err != nil {
		return err
	}
	return s.CloseWith(do(s))
}
