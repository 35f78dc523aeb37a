package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/support"
)

// logRuns is how many past plans go into a support archive.
const logRuns = 20

func newLogsCmd(a *App) *cobra.Command {
	var file, dir string
	var since time.Duration
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Collect a support archive from all machines, without secrets",
		Long: `Ask all machines at once for what their units and containers logged and what they are, and put that into one archive, together
with the cluster's status, its document and the record of what was done (history). Machines that do not answer are listed in
problems.json and do not stop the rest.

No key, certificate, kubeconfig or Secret is collected, and all texts are searched for the cluster's own secrets and for what looks
like keys, tokens or passwords. Logs may still hold what workloads write: look before you send it to anybody.`,
		Example: "  naupegos logs demo\n  naupegos logs demo --since 10m --file demo.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0] + "-logs-" + time.Now().UTC().Format("20060102T150405Z")
			if file == "" {
				file = filepath.Join(dir, name+".tar.gz")
			}
			return a.logs(cmd.Context(), args[0], file, support.Options{Since: since, Prefix: name})
		},
	}
	c.Flags().StringVar(&file, "file", "", "the archive (default: NAME-logs-TIME.tar.gz)")
	c.Flags().StringVar(&dir, "dir", ".", "the directory of the archive, where --file is not given")
	c.Flags().DurationVar(&since, "since", time.Hour, "how far back logs go")
	return c
}

func (a *App) logs(ctx context.Context, name, file string, o support.Options) error {
	s, _, err := a.openNamed(ctx, name, sessionOptions{readOnly: true, bundle: bundles.IfHere})
	if err != nil {
		return err
	}
	defer s.Close()
	runs, err := s.Store.Runs(ctx, name, logRuns)
	if err != nil {
		return err
	}
	history, err := json.MarshalIndent(runs, "", "  ")
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	o.Extra = map[string][]byte{"history.json": history, "version.txt": []byte("naupegos " + version + "\n")}
	o.Status = func(line string) { fmt.Fprintln(a.Err, line) }
	var problems []support.Problem
	err = cluster.WritePrivate(file, func(w io.Writer) (err error) {
		problems, err = s.Cluster.Logs(ctx, w, o)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(a.Err, "not in it: %s %s: %s\n", p.Machine, p.What, p.Error)
	}
	_, err = fmt.Fprintln(a.Out, file)
	return err
}
