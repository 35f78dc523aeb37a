// Package cli is the operator's command: each file has a verb or a group of verbs, which parse flags, make one call and print the result.
//
// It contains no logic except for flags and output; other packages implement the verbs.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundling"
	"github.com/naupegos/naupegos/internal/cli/contexts"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/people"
	"github.com/naupegos/naupegos/internal/cli/shell"
	"github.com/naupegos/naupegos/internal/cli/signin"
	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// App holds the environment of every verb: streams, the location of its state, and the log.
type App struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // progress, warnings and errors

	StateDir string // this user's own directory; empty: the default
	StoreURL string // of the database that several people share; empty: $NAUPEGOS_STORE, else one in StateDir
	NoColor  bool

	identityPassphrase string        // file with the passphrase of the store's identity
	unlocked           *store.Unlock // shared by all stores that this process opens, so that it asks once

	passphraseWork int // archive.Key.Work; tests use less

	now     func() context.Context // the command's
	bundled time.Duration          // time spent on finding and making bundles
	logging logFlags
	where   contexts.Flags
}

// Color reports whether w is a terminal that wants colour.
func (a *App) Color(w io.Writer) bool { return !a.NoColor && show.WantColor(w) }

// New returns the whole command tree.
func New(a *App) *cobra.Command {
	root := &cobra.Command{
		Use:   "naupegos",
		Short: "Build and maintain highly available Kubernetes clusters",
		Long: `naupegos builds highly available Kubernetes clusters on this machine, on hosts that you name, on OpenStack and on
physical machines, from one short YAML document, and maintains them: upgrades, backups, certificates, repair.

Start with:
  naupegos init > cluster.yaml      write a document
  naupegos plan -f cluster.yaml     see what would be done
  naupegos apply -f cluster.yaml    do it`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.now = c.Context
			if a.NoColor { // the observers of plans read it, and the programs that verbs run
				if err := os.Setenv("NO_COLOR", "1"); err != nil {
					return err
				}
			}
			if err := a.startLog(c.CommandPath()); err != nil {
				return err
			}
			return checkServer(c, a)
		},
	}
	a.now, a.unlocked = context.Background, a.newUnlock()
	root.SetVersionTemplate("naupegos {{.Version}}\n")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().StringVar(&a.StateDir, "state-dir", a.StateDir, "directory of the store, and of this user's keys (default $XDG_STATE_HOME/naupegos)")
	root.PersistentFlags().StringVar(&a.StoreURL, "store", "", "PostgreSQL database that a team shares as its store, postgres://USER@HOST/DATABASE (default $NAUPEGOS_STORE, else a file in the state directory)")
	root.PersistentFlags().BoolVar(&a.NoColor, "no-color", a.NoColor, "plain output, as with NO_COLOR")
	root.PersistentFlags().StringVar(&a.identityPassphrase, "identity-passphrase-file", "", "file whose first line is the passphrase of identity.age (default: the systemd credential naupegos-identity-passphrase, else asked for)")
	a.where.Store, a.where.StateDir = &a.StoreURL, &a.StateDir
	a.where.Bind(root)
	a.logging.bind(root)
	root.SetFlagErrorFunc(verbs.FlagError)
	verbs.AsPlugin(root, os.Args[0])
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

// run runs the command, and prints its error.
func (a *App) run(ctx context.Context, args []string) (int, error) {
	root := New(a)
	root.SetArgs(args)
	verb, err := verbs.Run(ctx, root, args, a.Err, func(verb *cobra.Command, err error) {
		printError(a.Err, verb, args, err)
		os.Exit(fail.KindOf(err).ExitCode())
	})
	var code exitCode
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &code):
		return int(code), nil
	}
	printError(a.Err, verb, args, err)
	return fail.KindOf(err).ExitCode(), err
}

// printError prints an error as text or, if the user asked for that, as JSON. The flags may be what could not be parsed.
func printError(w io.Writer, verb *cobra.Command, args []string, err error) {
	printed := error(nil)
	err = fail.Whole(err) // the command's user may read the store
	switch out, progress := verb.Flags().Lookup("output"), verb.Flags().Lookup("progress"); {
	case progress != nil && progress.Value.String() == string(show.ObserveJSON):
		printed = output.WriteErrorEvent(w, err, time.Now())
	case out != nil && out.Value.String() == "json", verbs.AsksJSON(args):
		printed = output.WriteError(w, err)
	default:
		output.WriteText(w, err)
	}
	if printed != nil {
		fmt.Fprintf(w, "naupegos: %v\n", errors.Join(err, printed))
	}
}

// exitCode ends the command with a status that is not an error, such as "there are changes".
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// addVerbs adds every verb to the root, in the order in which a user meets them.
func addVerbs(root *cobra.Command, a *App) {
	root.AddCommand(append(newServerCmds(a),
		newDoctorCmd(a), newInitCmd(a), newValidateCmd(a), newExplainCmd(a), newSchemaCmd(a), newDocumentCmd(a),
		newPlanCmd(a), newDiffCmd(a), newApplyCmd(a), newUpgradeCmd(a), newStatusCmd(a), newTestCmd(a), newKubectlCmd(a), people.NewKubeconfig(a.people()), people.NewUsers(a.people()),
		newNodeCmd(a), newAutoscaleCmd(a), newMachineCmd(a), shell.NewSSH(a.shell()), shell.NewSSHConfig(a.shell()), newCertsCmd(a), newRenewCmd(a), newHistoryCmd(a), shell.NewLogs(a.shell()), shell.NewSupport(a.shell()), newHandoverCmd(a), newBackupCmd(a), newEtcdCmd(a), newResetCmd(a), newImportCmd(a), newReleaseCmd(a), newDestroyCmd(a),
		bundling.New(bundling.Streams{In: a.In, Out: a.Out, Err: a.Err}), newImageCmd(a), newStoreCmd(a), signin.NewLogin(a.signIn()), signin.NewLogout(a.signIn()), signin.NewGetToken(a.signIn()),
		newRepairCmd(a), newUpdateCmd(a),
		newVersionCmd(a), newLocalMachineCmd(),
	)...)
	root.AddCommand(watchVerbs(a)...)
	root.AddCommand(contexts.NewUse(contexts.Host{Out: a.Out, Flags: &a.where, Clusters: a.storedNames}))
	root.SetHelpCommand(verbs.Help(root))
	groupVerbs(root)
	verbs.AddAliases(root)
	verbs.AddCompletion(root)
	verbs.CheckArguments(root, namesOf(a))
	verbs.TakeDays(root)
	verbs.TakeOneFile(root)
	verbs.TakeReleases(root)
	verbs.TakeFormerFlags(root)
	verbs.LayOutHelp(root)
	completeNames(root, a)
	completeFromStore(root, a)
	completeValues(root)
}

// verbGroups are the headings of the list of verbs, in the order in which a user meets them, each with its verbs.
var verbGroups = []struct{ title, verbs string }{
	{"Clusters:", "init validate explain schema plan diff apply status top describe events test kubectl kubeconfig users document history destroy reset"},
	{"The life of a cluster:", "upgrade backup certs renew repair update autoscale etcd import handover release"},
	{"Machines:", "node machine ssh ssh-config logs support"},
	{"Server and store:", "ui use server login logout get-token store"},
	{"Artefacts:", "bundle image"},
	{"Other:", "doctor version help completion"},
}

// groupVerbs puts every verb below its heading.
func groupVerbs(root *cobra.Command) {
	of := map[string]string{}
	for _, g := range verbGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for verb := range strings.FieldsSeq(g.verbs) {
			of[verb] = g.title
		}
	}
	for _, c := range root.Commands() {
		if !c.Hidden {
			c.GroupID = of[c.Name()]
		}
	}
	root.SetHelpCommandGroupID(of["help"])
	root.SetCompletionCommandGroupID(of["completion"])
}

// version is stamped by the linker (-X); a plain `go build` says "dev".
var version = "dev"

func newVersionCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of naupegos",
		Example: "  naupegos version\n  naupegos version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return out.Print(a.Out, v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "naupegos %s (%s, %s)\n", version, v["go"], v["platform"])
				return err
			})
		},
	}
	out.Bind(c)
	return c
}
