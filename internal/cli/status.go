package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/watch"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/store"
)

func newStatusCmd(a *App) *cobra.Command {
	var f statusFlags
	var within time.Duration
	c := &cobra.Command{
		Use:   "status [NAME]",
		Short: "List clusters, or show one cluster's machines, nodes, etcd and certificates",
		Long: `Without NAME, list the clusters in the store with their health. With NAME, check the cluster's machines, its
Kubernetes API and etcd now, and show their state.
--watch prints the status again each time it changes, until you stop it. --wait waits until the cluster is healthy or
drifted: waiting repairs no drift.

The first line is the state, its cause and the command that helps. A cluster is healthy; or drifted: it serves, but
something on it differs from the document, or is due for renewal; or unhealthy: something is missing, down, silent or
expired. The lines below are further causes: ! makes it unhealthy, ~ drifted, i is only worth knowing.

Exit status: 0 if the cluster is healthy, 10 if it has drifted, 5 if it is unhealthy. Without NAME, 0 whatever the
clusters' health.`,
		Example: "  naupegos status\n  naupegos status demo\n  naupegos status demo --watch\n  naupegos status demo --wait=5m\n  naupegos status demo -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.wait < 0:
				return fail.New(fail.Invalid, "--wait=%s is negative", f.wait)
			case len(args) == 1:
				return showStatus(cmd.Context(), a, args[0], &f)
			case f.watch || f.wait > 0:
				return fail.New(fail.Invalid, "--watch and --wait look at one cluster").Do("name it: naupegos status NAME --wait")
			}
			return listClusters(cmd.Context(), a, &f.out, within)
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "print the status again each time it changes")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait at most this long while the cluster is unhealthy (10m if no time is given)")
	c.Flags().Lookup("wait").NoOptDefVal = "10m"
	c.Flags().DurationVar(&within, "timeout", 15*time.Second, "without NAME: how long to wait for the clusters' health")
	f.out.Bind(c)
	return c
}

// statusEvery is the interval of --watch and --wait.
const statusEvery = 2 * time.Second

// statusFlags are the flags of naupegos status.
type statusFlags struct {
	out   output.Format
	watch bool
	wait  time.Duration // 0: look once
}

// showStatus prints a cluster's status: once, each time it changes, or once it is healthy.
func showStatus(ctx context.Context, a *App, name string, f *statusFlags) error {
	var limit <-chan time.Time
	if f.wait > 0 {
		limit = time.After(f.wait)
	}
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var last []byte
	for {
		st, err := a.lookAt(ctx, name)
		if err != nil {
			return err
		}
		done := !f.watch && (f.wait == 0 || st.StateWord() != report.Unhealthy)
		if f.watch || done {
			if last, err = printStatus(a, st, f, last); err != nil {
				return err
			}
		}
		if done {
			return statusCode(st)
		}
		select {
		case <-tick.C:
		case <-limit:
			if f.watch {
				return statusCode(st)
			}
			if _, err := printStatus(a, st, f, nil); err != nil {
				return err
			}
			return fail.New(fail.NotReady, "cluster %s is not healthy after %s", name, f.wait).Do("wait longer with --wait=TIME, or fix what is wrong: naupegos plan -f FILE shows what differs")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAt observes a cluster through a new session, because the stored state may have changed since an earlier one.
func (a *App) lookAt(ctx context.Context, name string) (st *report.Status, err error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		return c.Status(ctx, name)
	}
	err = a.onCluster(ctx, name, sessionOptions{readOnly: true, bundle: bundles.IfHere}, func(s *session) (err error) {
		st, err = s.Cluster.Status(ctx)
		return err
	})
	return st, err
}

// printStatus prints a status unless its text equals last, and returns its text.
func printStatus(a *App, st *report.Status, f *statusFlags, last []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := f.out.Print(&b, st, func(w io.Writer) error { return screen(a).Status(w, st, time.Now()) }); err != nil {
		return nil, err
	}
	if bytes.Equal(b.Bytes(), last) {
		return last, nil
	}
	if f.watch && f.out.IsTable() {
		fmt.Fprintf(a.Out, "%s\n", time.Now().Format(time.DateTime))
	}
	_, err := a.Out.Write(b.Bytes())
	return b.Bytes(), err
}

// statusCode returns the error with the exit code for a status.
func statusCode(st *report.Status) error {
	switch st.StateWord() {
	case report.Healthy:
		return nil
	case report.Drifted:
		return exitCode(fail.ExitDrifted)
	}
	return exitCode(fail.NotReady.ExitCode())
}

// listClusters lists the clusters in the store, with the health that it can find out within the given time.
func listClusters(ctx context.Context, a *App, out *output.Format, within time.Duration) error {
	if c, err := a.server(); err != nil {
		return err
	} else if c != nil {
		rows, err := c.Clusters(ctx, within)
		if err != nil {
			return err
		}
		if len(rows) == 0 && out.IsTable() {
			_, err := fmt.Fprintf(a.Out, "No clusters that this token may see on %s.\nnaupegos init writes a document, naupegos apply builds it.\n", c.Where())
			return err
		}
		return printClusters(a, rows, out)
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	rows, err := operate.Rows(ctx, st)
	if err != nil {
		return err
	}
	if len(rows) == 0 && out.IsTable() {
		return noClusters(a.Out, st)
	}
	quiet := *a
	quiet.Err = io.Discard // a missing bundle shows in the health
	operate.AddHealth(ctx, rows, within, quiet.lookAt)
	return printClusters(a, rows, out)
}

// printClusters prints a list of clusters.
func printClusters(a *App, rows []operate.Row, out *output.Format) error {
	return out.Print(a.Out, rows, func(w io.Writer) error { return screen(a).Clusters(w, rows) })
}

// screen returns the screen for a's output. Only a terminal has a width.
func screen(a *App) watch.Screen {
	s := watch.Screen{Width: 1 << 15, Color: a.Color(a.Out)}
	if terminal.Is(a.Out) {
		s.Width = terminal.Width(a.Out)
	}
	return s
}

// noClusters writes that the store is empty, and where else clusters may be: root and its users have separate stores.
func noClusters(w io.Writer, st store.Store) error {
	text := fmt.Sprintf("No clusters in %s.\nnaupegos init writes a document, naupegos apply builds it.\n", st.Where())
	if st.Where() != st.Dir() { // a team's store
		_, err := io.WriteString(w, text)
		return err
	}
	if os.Geteuid() != 0 {
		text += "Clusters that root built are in root's store: sudo -E naupegos status, or sudo naupegos status.\n"
	} else if other := storeBeforeSudo(st.Dir()); other != "" {
		text += fmt.Sprintf("%s is the store of the user who ran sudo: sudo -E uses that one.\n", other)
	}
	_, err := io.WriteString(w, text)
	return err
}

// storeBeforeSudo returns the store of the user who became root by sudo, if there is one and it is not dir.
func storeBeforeSudo(dir string) string {
	u, err := user.Lookup(os.Getenv("SUDO_USER"))
	if err != nil {
		return ""
	}
	other := filepath.Join(u.HomeDir, ".local", "state", "naupegos")
	if _, err := os.Stat(other); err != nil || other == dir {
		return ""
	}
	return other
}
