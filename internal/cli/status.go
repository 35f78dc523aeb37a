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
--watch prints the status again each time it changes, until you stop it. --wait waits until the cluster is healthy.

Exit status: 0 if the cluster is healthy, 5 if something is missing, down, different from the document, or due for
renewal.`,
		Example: "  naupegos status\n  naupegos status demo\n  naupegos status demo --watch\n  naupegos status demo --wait=5m\n  naupegos status demo -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.wait < 0:
				return fail.New(fail.Invalid, "--wait=%s is negative", f.wait)
			case len(args) == 1:
				return a.showStatus(cmd.Context(), args[0], &f)
			case f.watch || f.wait > 0:
				return fail.New(fail.Invalid, "--watch and --wait look at one cluster").Do("name it: naupegos status NAME --wait")
			}
			return a.listClusters(cmd.Context(), &f.out, within)
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "print the status again each time it changes")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait at most this long until the cluster is healthy (10m if no time is given)")
	c.Flags().Lookup("wait").NoOptDefVal = "10m"
	c.Flags().DurationVar(&within, "timeout", 15*time.Second, "without NAME: how long to wait for the clusters' health")
	f.out.Bind(c)
	return c
}

func statusTable(w io.Writer, s *report.Status) error {
	fmt.Fprintf(w, "%s\n  endpoint  %s\n  API       %s\n  etcd      %s\n", s.Summary(), s.Endpoint, s.API, s.Etcd)
	if s.Rotation != "" {
		fmt.Fprintf(w, "  rotation  %s\n", s.Rotation)
	}
	if s.Reset != "" {
		fmt.Fprintf(w, "  reset     %s\n", s.Reset)
	}
	if s.Upgrade != "" {
		fmt.Fprintf(w, "  upgrade   %s\n", s.Upgrade)
	}
	for _, tried := range s.Repairs {
		fmt.Fprintf(w, "  repair    %s\n", tried)
	}
	if s.BundleNote != "" {
		fmt.Fprintf(w, "  bundle    %s\n", s.BundleNote)
	}
	if s.Backups != nil {
		fmt.Fprintf(w, "  backup    %s\n", backupWords(s.Backups, s.Name, time.Now()))
		if on := s.Backups.Scheduled; on != nil {
			fmt.Fprintf(w, "  schedule  %s\n", scheduleWords(on, s.Name, time.Now()))
		}
	}
	if !s.Expires.IsZero() {
		fmt.Fprintf(w, "  next certificate to expire  %s (%s)\n", s.Expires.Format(time.DateOnly), s.ExpiresOf)
	}
	if n := len(s.Due); n > 0 {
		fmt.Fprintf(w, "  due for renewal             %d, the first is %s: naupegos renew %s renews them\n", n, s.Due[0], s.Name)
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Head("MACHINE\tROLE\tADDRESS\tSTATE\tCONFIGURATION\tNODE\tVERSION\tETCD")
	var long output.Footnotes
	for _, m := range s.Machines {
		cell := func(text string) string { return long.Cell(m.Name, text) }
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Role, m.Address, cell(m.State), cell(m.Config), cell(m.Node), cell(m.Version), cell(m.Etcd))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return long.Write(w)
}

// statusEvery is the pause between two looks of --watch and --wait.
const statusEvery = 2 * time.Second

// statusFlags say how status looks at a cluster.
type statusFlags struct {
	out   output.Format
	watch bool
	wait  time.Duration // 0: look once
}

// showStatus prints a cluster's status: once, each time it changes, or once it is healthy.
func (a *App) showStatus(ctx context.Context, name string, f *statusFlags) error {
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
		done := !f.watch && (f.wait == 0 || st.Healthy)
		if f.watch || done {
			if last, err = a.printStatus(st, f, last); err != nil {
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
			if _, err := a.printStatus(st, f, nil); err != nil {
				return err
			}
			return fail.New(fail.NotReady, "cluster %s is not healthy after %s", name, f.wait).Do("wait longer with --wait=TIME, or fix what is wrong: naupegos plan -f FILE shows what differs")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAt observes a cluster now, through a session of its own: what is known of it may have changed meanwhile.
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

// printStatus prints a status unless it reads as the last one did, and returns how it reads.
func (a *App) printStatus(st *report.Status, f *statusFlags, last []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := f.out.Print(&b, st, func(w io.Writer) error { return statusTable(w, st) }); err != nil {
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

// statusCode is how the command ends.
func statusCode(st *report.Status) error {
	if st.Healthy {
		return nil
	}
	return exitCode(fail.NotReady.ExitCode())
}

// listClusters lists what is in the store, with each cluster's health as far as it can be told within a time.
func (a *App) listClusters(ctx context.Context, out *output.Format, within time.Duration) error {
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
		return a.printClusters(rows, out)
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
	quiet.Err = io.Discard // a bundle that is not here shows in the health
	operate.AddHealth(ctx, rows, within, quiet.lookAt)
	return a.printClusters(rows, out)
}

// printClusters prints a list of clusters.
func (a *App) printClusters(rows []operate.Row, out *output.Format) error {
	return out.Print(a.Out, rows, func(w io.Writer) error {
		t := output.NewTable(w)
		t.Head("NAME\tPROVIDER\tKUBERNETES\tHEALTH\tCREATED\tID\tIN PROGRESS")
		for _, r := range rows {
			t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Provider, output.Dash(r.Kubernetes), r.Health, r.Created.Local().Format(time.DateTime), r.ID, r.Lease)
		}
		return t.Flush()
	})
}

// noClusters says that the store is empty, and where else clusters may be: root and its users have stores of their own.
func noClusters(w io.Writer, st store.Store) error {
	text := fmt.Sprintf("No clusters in %s.\nnaupegos init writes a document, naupegos apply builds it.\n", st.Where())
	if st.Where() != st.Dir() { // a team's
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
