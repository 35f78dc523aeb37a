package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
	"github.com/naupegos/naupegos/internal/operate"
)

// defaultTail is the number of lines shown of each machine without --tail and --since.
const defaultTail = 100

// NewLogs returns the verb logs.
func NewLogs(h Host) *cobra.Command {
	v := &logsVerb{Host: h}
	c := &cobra.Command{
		Use:   "logs NAME [MACHINE...]",
		Short: "Show the logs of machines: their units and static pods",
		Long: `Show the journal and the logs of the static pods (etcd and the control plane) of all machines of a cluster, or of those
named, merged in the order of time. Machines are asked over SSH: it works while the Kubernetes API is down. MACHINE may
lack the cluster's name: cp-1 for demo-cp-1.

-u shows only units, -c and --pod only containers: of any pod on the machines, also of workloads. Without --since and
--tail, the last 100 lines of each machine are shown. --follow prints new lines until you interrupt it, across
restarts of units, containers and machines. With -o json, each line is a JSON object.

naupegos support NAME collects the logs of all machines in one archive, without secrets.`,
		Example: `  naupegos logs demo
  naupegos logs demo cp-1 -u kubelet -f
  naupegos logs demo -c etcd --since 10m --grep 'took too long'
  naupegos logs demo cp-1 -c kube-apiserver --previous
  naupegos logs demo general-1 --pod default/web -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.run(c, args[0], args[1:]) },
	}
	v.bind(c)
	return c
}

// logsVerb is the verb logs with its flags.
type logsVerb struct {
	Host
	logs.Request
	since  time.Duration
	output string
	old    archive // the archive that the hidden flag --file still writes; naupegos support replaces it
}

func (v *logsVerb) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&v.Units, "unit", "u", nil, "systemd unit, such as kubelet or containerd, or a pattern (repeatable)")
	f.StringVarP(&v.Container, "container", "c", "", "container, such as etcd or kube-apiserver")
	f.StringVar(&v.Pod, "pod", "", "pods whose name begins so: [NAMESPACE/]NAME")
	f.BoolVar(&v.Previous, "previous", false, "of containers, the run before the present one")
	f.BoolVarP(&v.Follow, "follow", "f", false, "go on with new lines until interrupted")
	f.IntVar(&v.Tail, "tail", defaultTail, "show at most so many of each machine's lines, the last ones; 0: all")
	f.DurationVar(&v.since, "since", 0, "show lines of that long ago and later, such as 10m")
	f.StringVar(&v.Grep, "grep", "", "show only lines that match a regular expression")
	f.StringVarP(&v.output, "output", "o", "text", "output format: text or json (one object a line)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp)) // it fails only for a flag that already has a completion
	f.StringVar(&v.old.file, "file", "", "archive to write")
	f.StringVar(&v.old.dir, "dir", ".", "directory of the archive, if --file is not given")
	_ = f.MarkHidden("file") // they fail only for flags that do not exist
	_ = f.MarkHidden("dir")
}

func (v *logsVerb) run(c *cobra.Command, cluster string, machines []string) error {
	if f := c.Flags(); f.Changed("file") || f.Changed("dir") {
		fmt.Fprintln(v.Err, "naupegos support NAME --file FILE writes the archive; logs --file will go.")
		v.old.Host, v.old.since = v.Host, v.since
		if v.since == 0 {
			v.old.since = time.Hour
		}
		return v.old.write(c.Context(), cluster)
	}
	if err := v.check(c, cluster); err != nil {
		return err
	}
	var r result
	err := v.On(c.Context(), cluster, false, func(s *operate.Session) error {
		from, err := v.find(c.Context(), s, machines)
		if err != nil {
			return err
		}
		r = v.show(c.Context(), from)
		return nil
	})
	if err != nil {
		return err
	}
	return r.end(c.Context(), v.Follow)
}

// check refuses invalid and contradictory flags, and a server, which logs does not use.
func (v *logsVerb) check(c *cobra.Command, cluster string) error {
	server, err := v.Server()
	switch {
	case err != nil:
		return err
	case server != nil:
		return fail.New(fail.Refused, "logs does not go through a server, and one is named").
			Do("naupegos support %s has the server collect an archive; or run logs where the server's store is", cluster)
	case v.output != "text" && v.output != "json":
		return fail.New(fail.Invalid, "--output %q", v.output).Do("use text or json")
	case v.Tail < 0:
		return fail.New(fail.Invalid, "--tail %d is negative", v.Tail).Do("0 shows all lines")
	case v.since < 0:
		return fail.New(fail.Invalid, "--since %s is negative", v.since)
	case v.Previous && v.Follow:
		return fail.New(fail.Invalid, "--previous and --follow exclude each other: a former run writes nothing more")
	case v.Previous && len(v.Units) > 0:
		return fail.New(fail.Invalid, "--previous and --unit exclude each other: the journal has all runs of a unit").Do("use --since")
	}
	if _, err := regexp.Compile(v.Grep); err != nil {
		return fail.Wrap(fail.Invalid, err, "--grep %q", v.Grep)
	}
	if c.Flags().Changed("since") {
		v.Since = time.Now().Add(-v.since)
		if !c.Flags().Changed("tail") {
			v.Tail = 0
		}
	}
	return nil
}

// request returns the request for a machine's agent. Unless since is zero, it asks for the lines from then on.
func (v *logsVerb) request(since time.Time) (string, error) {
	r := v.Request
	if !since.IsZero() { // after a lost connection
		r.Since, r.Tail = since, 0
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "write which logs are wanted")
	}
	return string(data), nil
}

// result is the outcome of showing logs.
type result struct {
	err    error // of writing
	failed error // the first error of a machine; it has been printed
}

// end returns the error of the command: an interrupted --follow succeeded.
func (r result) end(ctx context.Context, follow bool) error {
	switch {
	case follow && ctx.Err() != nil:
		return nil
	case r.err != nil && !errors.Is(r.err, context.Canceled):
		return r.err
	case ctx.Err() != nil:
		return fail.Wrap(fail.Interrupted, ctx.Err(), "read the logs")
	case r.failed != nil:
		return fail.New(fail.KindOf(r.failed), "some machines gave no logs or not all of them")
	}
	return nil
}
