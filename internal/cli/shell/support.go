package shell

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/operate"
)

// NewSupport returns the verb support.
func NewSupport(h Host) *cobra.Command {
	a := archive{Host: h}
	c := &cobra.Command{
		Use:   "support NAME",
		Short: "Collect logs and facts from all machines in an archive, without secrets",
		Long: `Collect from all machines the logs of their units and containers and a description of each machine, and write them to one
archive, together with the cluster's status, document and history. Machines that do not answer are listed in
problems.json and do not stop the rest.

No key, certificate, kubeconfig or Secret is collected, and every text is searched for the cluster's own secrets and for
anything that looks like a key, token or password. Logs may still contain what workloads write: look through the archive
before you send it to anybody. With --server, the server collects it; this needs the role admin.`,
		Example: "  naupegos support demo\n  naupegos support demo --since 10m --file demo.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.write(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&a.file, "file", "", "archive to write (default: NAME-support-TIME.tar.gz)")
	c.Flags().StringVar(&a.dir, "dir", ".", "directory of the archive, if --file is not given")
	c.Flags().DurationVar(&a.since, "since", time.Hour, "how far back the logs go")
	return c
}

// archive is a support archive to collect.
type archive struct {
	Host
	file, dir string
	since     time.Duration
}

// write collects the archive and prints its name.
func (a *archive) write(ctx context.Context, cluster string) error {
	name := cluster + "-support-" + time.Now().UTC().Format("20060102T150405Z")
	file := a.file
	if file == "" {
		file = filepath.Join(a.dir, name+".tar.gz")
	}
	problems, err := a.collect(ctx, cluster, file, support.Options{Since: a.since, Prefix: name})
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(a.Err, "not in it: %s %s: %s\n", p.Machine, p.What, p.Error)
	}
	_, err = fmt.Fprintln(a.Out, file)
	return err
}

// collect writes the archive, or asks the server for it.
func (a *archive) collect(ctx context.Context, cluster, file string, o support.Options) (problems []support.Problem, err error) {
	if c, err := a.Server(); err != nil {
		return nil, err
	} else if c != nil {
		seconds := int((o.Since + time.Second - 1) / time.Second)
		got, err := client.See(ctx, c, cluster, operate.LogsView, operate.LogsOf{Prefix: o.Prefix, Seconds: seconds})
		if err != nil {
			return nil, err
		}
		return got.Problems, connect.WritePrivate(file, func(w io.Writer) error { _, err := w.Write(got.Archive); return err })
	}
	err = a.On(ctx, cluster, true, func(s *operate.Session) error {
		o.Status = func(line string) { fmt.Fprintln(a.Err, line) }
		return connect.WritePrivate(file, func(w io.Writer) (err error) {
			problems, err = s.Logs(ctx, w, o, a.Version)
			return err
		})
	})
	return problems, err
}
