package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/work"
)

func newNodeCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "List, add, remove, replace, cordon and drain a cluster's nodes",
		Long: `List a cluster's machines and nodes, and change them. add and remove change the number of machines in the document and
then do what apply does: the document remains the only place where intent is written.`,
		Example: "  naupegos node list demo\n  naupegos node add demo --pool general\n  naupegos node replace demo demo-cp-1",
	}
	c.AddCommand(newNodeListCmd(a), newNodeAddCmd(a), newNodeRemoveCmd(a), newNodeReplaceCmd(a),
		newNodeCordonCmd(a), newNodeUncordonCmd(a), newNodeDrainCmd(a))
	return c
}

func newNodeListCmd(a *App) *cobra.Command {
	var out output.Format
	var only output.Selector
	c := &cobra.Command{
		Use:     "list NAME",
		Short:   "List a cluster's machines and nodes",
		Long:    `List the cluster's machines with their nodes, and nodes that were joined by others.`,
		Example: "  naupegos node list demo\n  naupegos node list demo -l role=worker -o name",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := see(cmd.Context(), a, args[0], operate.Nodes, operate.Plainly{})
			if err != nil {
				return err
			}
			if list.Problem != "" {
				fmt.Fprintf(a.Err, "naupegos: nodes can't be told: %s\n", list.Problem)
			}
			rows, err := output.Select(&only, list.Nodes)
			if err != nil {
				return err
			}
			return out.Print(a.Out, rows, func(w io.Writer) error { return nodeTable(w, rows, time.Now()) })
		},
	}
	out.Bind(c)
	only.Bind(c)
	return c
}

func nodeTable(w io.Writer, nodes []nodes.NodeRow, now time.Time) error {
	t := output.NewTable(w)
	t.Head("NAME\tROLE\tPOOL\tADDRESS\tSTATE\tNODE\tVERSION\tAGE")
	for _, n := range nodes {
		age := "-"
		if !n.Created.IsZero() {
			age = shortAge(now.Sub(n.Created))
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, output.Dash(n.Role), output.Dash(n.Pool), output.Dash(n.Address), output.Dash(n.State), output.Dash(n.Node), output.Dash(n.Version), age)
	}
	return t.Flush()
}

// shortAge formats an age in its largest unit: 45s, 12m, 7h, 90d.
func shortAge(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func newNodeCordonCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "cordon NAME MACHINE...",
		Short:   "Mark nodes as unschedulable",
		Example: "  naupegos node cordon demo demo-general-1",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onNodes(cmd.Context(), a, operate.Asked{Verb: "node cordon"}, args, "cordoned")
		},
	}
}

func newNodeUncordonCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "uncordon NAME MACHINE...",
		Short:   "Mark nodes as schedulable again",
		Example: "  naupegos node uncordon demo demo-general-1",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onNodes(cmd.Context(), a, operate.Asked{Verb: "node uncordon"}, args, "open for new pods")
		},
	}
}

func newNodeDrainCmd(a *App) *cobra.Command {
	var o operate.Drain
	var timeout, grace time.Duration
	c := &cobra.Command{
		Use:   "drain NAME MACHINE...",
		Short: "Evict the pods of nodes",
		Long: `Cordon nodes, one after another, and evict their pods, except those of DaemonSets, respecting PodDisruptionBudgets. The
nodes stay cordoned until naupegos node uncordon.`,
		Example: "  naupegos node drain demo demo-general-1\n  naupegos node drain demo demo-general-1 --timeout 2m --delete-emptydir-data",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 || grace < 0 {
				return fail.New(fail.Invalid, "a time can't be negative")
			}
			o.TimeoutSeconds, o.GraceSeconds = seconds(timeout), seconds(grace)
			return onNodes(cmd.Context(), a, operate.Asked{Verb: "node drain", Drain: &o}, args, "drained")
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "time limit of draining each node (default: the document's spec.timeouts.drain)")
	c.Flags().BoolVar(&o.DeleteEmptyDir, "delete-emptydir-data", false, "also evict pods with emptyDir volumes, whose content is lost")
	c.Flags().BoolVar(&o.Force, "force", false, "also evict pods without a controller, which are not started elsewhere")
	c.Flags().DurationVar(&grace, "grace-period", 0*time.Second, "time that each pod has to stop (default: the pod's own)")
	return c
}

// seconds rounds up to whole seconds.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// onNodes executes a verb on the nodes named after the cluster, without asking, and prints their new state.
func onNodes(ctx context.Context, a *App, asked operate.Asked, args []string, done string) error {
	asked.Cluster, asked.Machines = args[0], unique(args[1:])
	if _, _, err := a.carry(ctx, &verb{asked: asked, flags: &runFlags{}}); err != nil {
		return err
	}
	for _, node := range asked.Machines {
		fmt.Fprintf(a.Out, "%s is %s\n", node, done)
	}
	return nil
}

func newNodeReplaceCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, asked: operate.Asked{Verb: "node replace"}}
	c := &cobra.Command{
		Use:   "replace NAME MACHINE...",
		Short: "Replace machines with new ones of the same name",
		Long: `Replace a machine with a new one of the same name. A machine that answers is drained first; one that is dead is given
up with its pods. Before a control-plane machine is replaced, a backup is made and the quorum is checked; the new
etcd member joins as a learner until it has caught up. Several machines are replaced one after another. If the command
is interrupted, run it again, or naupegos apply.`,
		Example: "  naupegos node replace demo demo-general-2\n  naupegos node replace demo demo-cp-1 --yes",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.asked.Machines = unique(args[1:])
			return n.carryOut(cmd.Context(), args[0])
		},
	}
	n.bindRun(c)
	return c
}

// autoscaleFlags define where pools are served, and to whom.
type autoscaleFlags struct {
	listen  string
	address []string // names or addresses of the server for autoscalers
	secret  bool
	run     runFlags
}

func newAutoscaleCmd(a *App) *cobra.Command {
	var f autoscaleFlags
	c := &cobra.Command{
		Use:   "autoscale NAME...",
		Short: "Let a cluster-autoscaler scale pools of workers",
		Long: `Serve the pools of workers that can scale (maxReplicas in the document) to the Kubernetes cluster-autoscaler, through
its provider externalgrpc. The autoscaler asks for machines when pods find no room, and for the removal of machines
that are idle. Each change is a plan like apply's, recorded in the history, made under the cluster's lease, and
within minReplicas and maxReplicas. The number is remembered: a later apply keeps it.

Nothing else in the cluster is changed. If apply would do more than scale, requests are refused until an operator
has applied. While another command works on the cluster, the server asks the autoscaler to try again.

The autoscaler and the server authenticate each other with certificates of the cluster's authority: --secret prints a
Secret with the autoscaler's certificate and configuration, and serves nothing. The first cluster is served on the
port of --listen, each further cluster on the next port.

The command runs until you interrupt it; running steps then finish, and the rest of the work continues when it is
started again. If naupegos server runs, spec.unattended.autoscale makes it do the same, and you need this command only
for --secret.`,
		Example: `  naupegos autoscale demo --listen 192.0.2.1:8086
  naupegos autoscale demo --listen 0.0.0.0:8086 --address scaler.example.org
  naupegos autoscale demo --listen 192.0.2.1:8086 --secret | naupegos kubectl demo -- apply -f -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args = unique(args); f.secret && len(args) > 1 {
				return fail.New(fail.Invalid, "--secret is for one cluster")
			}
			at, err := f.places(len(args))
			if err != nil {
				return err
			}
			if f.secret {
				return autoscaleSecret(cmd.Context(), a, args[0], net.JoinHostPort(f.address[0], at[0]))
			}
			return autoscale(cmd.Context(), a, args, at, &f)
		},
	}
	c.Flags().StringVar(&f.listen, "listen", "", "address and port to serve on")
	c.Flags().StringSliceVar(&f.address, "address", nil, "name or address at which autoscalers reach this server (default: that of --listen)")
	c.Flags().BoolVar(&f.secret, "secret", false, "print a Secret with the autoscaler's configuration and certificate, and serve nothing")
	c.Flags().Var(&f.run.progress, "progress", "progress output: plain, json or none (default plain)")
	f.run.yes, f.run.parallel = true, 16
	return c
}

// places returns the port of each of n clusters.
func (f *autoscaleFlags) places(n int) (ports []string, err error) {
	host, port, err := net.SplitHostPort(f.listen)
	first, e := strconv.Atoi(port)
	if err != nil || e != nil || first < 1 || first+n-1 > 65535 {
		return nil, fail.New(fail.Invalid, "--listen %q is not an address and port", f.listen).Do("give it as 192.0.2.1:8086")
	}
	if ip := net.ParseIP(host); len(f.address) == 0 {
		if host == "" || ip != nil && ip.IsUnspecified() {
			return nil, fail.New(fail.Invalid, "--listen %s does not say by which name or address autoscalers reach the server", f.listen).Do("add --address")
		}
		f.address = []string{host}
	}
	for i := range n {
		ports = append(ports, strconv.Itoa(first+i))
	}
	return ports, nil
}

// secretName is the name of the Secret that --secret prints.
const secretName = "naupegos-autoscaler" //nolint:gosec // a name

// autoscaleSecret prints the Secret with which an autoscaler reaches the server.
func autoscaleSecret(ctx context.Context, a *App, name, address string) error {
	return a.onCluster(ctx, name, sessionOptions{readOnly: true}, func(s *session) error {
		pair, ca, err := s.Cluster.AutoscaleClient(ctx)
		if err != nil {
			return err
		}
		config := fmt.Sprintf("address: %q\nkey: /etc/naupegos-autoscaler/tls.key\ncert: /etc/naupegos-autoscaler/tls.crt\ncacert: /etc/naupegos-autoscaler/ca.crt\ngrpc_timeout: 2m\n", address)
		fmt.Fprintf(a.Out, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: kube-system\ndata:\n", secretName)
		for _, e := range []struct {
			key  string
			data []byte
		}{{"cloud-config", []byte(config)}, {"ca.crt", ca}, {"tls.crt", pair.CertPEM}, {"tls.key", pair.KeyPEM}} {
			if _, err := fmt.Fprintf(a.Out, "  %s: %s\n", e.key, base64.StdEncoding.EncodeToString(e.data)); err != nil {
				return err
			}
		}
		return nil
	})
}

// autoscale serves each cluster until it is interrupted, or serving one fails.
func autoscale(ctx context.Context, a *App, names, ports []string, f *autoscaleFlags) error {
	host, _, _ := net.SplitHostPort(f.listen)
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() error { return autoscaleOne(ctx, a, name, net.JoinHostPort(host, ports[i]), f) })
	}
	return g.Wait()
}

func autoscaleOne(ctx context.Context, a *App, name, at string, f *autoscaleFlags) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "serve the pools of cluster %s", name).Do("give another --listen")
	}
	asked := operate.Asked{Verb: operate.Autoscale, Cluster: name}
	s := &operate.Autoscaling{
		Cluster: name, Open: a.viewStore, // without a store the cluster does not exist, and no store is made
		Reached: func() ([]string, error) { return f.address, nil },
		Options: func(carry bool) operate.Options { return a.served(asked, work.Need{Look: !carry, CarryOut: carry}) },
		Terms:   func(doc *v1alpha1.Cluster) operate.Terms { return a.terms(&f.run, doc) },
		Tell:    func(format string, args ...any) { fmt.Fprintf(a.Err, "naupegos: "+format+"\n", args...) },
	}
	return s.Serve(ctx, l, func([]string) { fmt.Fprintf(a.Err, "Serving the pools of cluster %s at %s.\n", name, l.Addr()) })
}
