package metal

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/client"
)

// do has a verb done with each machine, and says so.
func (v *Verbs) do(ctx context.Context, c *client.Client, machines []string, verb string, o client.Order, done string) error {
	for _, name := range machines {
		if _, err := c.Do(ctx, name, verb, o); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(v.h.Out, "%s %s\n", name, done); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verbs) approve() *cobra.Command {
	var o client.Order
	c := v.verb("approve MACHINE...", "Let physical machines be used",
		`Let physical machines be used, and have the keys that they ask with be theirs from now on: what they are given later on, they get by these
alone. --key makes sure that it is the key that was compared with what the machine's console shows.`+meant,
		"  naupegos machine approve rack1-a\n  naupegos machine approve 52:54:00:aa:bb:cc --key 5f2c…", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if o.Key != "" && len(args) > 1 {
				return fail.New(fail.Invalid, "--key is of one machine").Do("approve machines with --key one by one")
			}
			return v.do(ctx, c, args, "approve", o, "is approved")
		})
	c.Flags().StringVar(&o.Key, "key", "", "the fingerprint of the key that is meant")
	return c
}

func (v *Verbs) reject() *cobra.Command {
	return v.verb("reject MACHINE...", "Have physical machines not be used", "Have physical machines not be used, and their keys count for nothing."+meant,
		"  naupegos machine reject 52:54:00:aa:bb:cc", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "reject", client.Order{}, "is rejected")
		})
}

func (v *Verbs) name() *cobra.Command {
	return v.verb("name MACHINE [NAME]", "Give a physical machine a name", "Give a physical machine a name; without one, take it away."+meant,
		"  naupegos machine name 52:54:00:aa:bb:cc rack1-a", cobra.RangeArgs(1, 2),
		func(ctx context.Context, c *client.Client, args []string) error {
			name := strings.Join(args[1:], "")
			done := "is now called " + name
			if name == "" {
				done = "has no name now"
			}
			return v.do(ctx, c, args[:1], "name", client.Order{Name: name}, done)
		})
}

func (v *Verbs) label() *cobra.Command {
	return v.verb("label MACHINE KEY=VALUE...", "Label a physical machine", "Set labels of a physical machine; KEY- takes one away. Clusters choose machines by labels, and spread over them."+meant,
		"  naupegos machine label rack1-a rack=r1 disk=fast\n  naupegos machine label rack1-a disk-", cobra.MinimumNArgs(2),
		func(ctx context.Context, c *client.Client, args []string) error {
			var set []string
			var o client.Order
			for _, a := range args[1:] {
				if k, minus := strings.CutSuffix(a, "-"); minus && !strings.Contains(a, "=") {
					o.Without = append(o.Without, k)
				} else {
					set = append(set, a)
				}
			}
			var err error
			if o.Labels, err = pairs(set); err != nil {
				return err
			}
			return v.do(ctx, c, args[:1], "label", o, "is labelled")
		})
}

func (v *Verbs) assign() *cobra.Command {
	var o client.Order
	c := v.verb("assign MACHINE...", "Give physical machines to a pool of a cluster",
		"Give physical machines to a pool of a cluster by hand. naupegos machine schedule chooses them by itself."+meant,
		"  naupegos machine assign rack1-a --cluster demo --pool control-plane", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "assign", o, "is "+o.Cluster+"'s, pool "+o.Pool)
		})
	c.Flags().StringVar(&o.Cluster, "cluster", "", "the cluster")
	c.Flags().StringVar(&o.Pool, "pool", registry.ControlPlanePool, "the pool")
	_ = c.MarkFlagRequired("cluster") // fails only for a flag that isn't there
	return c
}

func (v *Verbs) unassign() *cobra.Command {
	return v.verb("unassign MACHINE...", "Take physical machines out of their pools", "Take physical machines out of their pools, and all roles from them. What is on their disks stays."+meant,
		"  naupegos machine unassign rack1-a", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "unassign", client.Order{}, "is free")
		})
}

func (v *Verbs) maintenance() *cobra.Command {
	var why string
	var end bool
	c := v.verb("maintenance MACHINE...", "Have physical machines not be given away or installed for a while",
		"Have physical machines neither be given to clusters nor be installed, for a reason that everybody sees. --end ends that."+meant,
		"  naupegos machine maintenance rack1-a --why 'fan is loud'\n  naupegos machine maintenance rack1-a --end", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			switch {
			case end == (why != ""):
				return fail.New(fail.Invalid, "either --why or --end is wanted").Do("say why, or that it ends")
			case end:
				return v.do(ctx, c, args, "maintenance", client.Order{}, "can be used again")
			}
			return v.do(ctx, c, args, "maintenance", client.Order{Why: why}, "is in maintenance")
		})
	c.Flags().StringVar(&why, "why", "", "the reason")
	c.Flags().BoolVar(&end, "end", false, "it is over")
	return c
}

func (v *Verbs) strategy() *cobra.Command {
	return v.verb("strategy MACHINE [STRATEGY]", "Say how a physical machine takes updates",
		`Say how a physical machine that runs takes another order: live changes SSH keys alone; reboot, kexec and poweroff write the slot that does not run,
wait for a place among the machines that may reboot, and go; none does nothing. Without a strategy the machine takes no updates. naupegos update sets the
strategy of machines that clusters have, by their pools.`+meant,
		"  naupegos machine strategy rack1-a reboot\n  naupegos machine strategy rack1-a", cobra.RangeArgs(1, 2),
		func(ctx context.Context, c *client.Client, args []string) error {
			kind := strings.Join(args[1:], "")
			done := "takes updates by " + kind
			if kind == "" {
				done = "takes no updates"
			}
			return v.do(ctx, c, args[:1], "strategy", client.Order{Strategy: kind}, done)
		})
}

func (v *Verbs) reinstall() *cobra.Command {
	var yes bool
	c := v.verb("reinstall MACHINE...", "Allow physical machines to be installed once more",
		`Allow physical machines to be installed once more when they boot from the network next, whatever became of the installation before. What is on
their system disks is lost then.`+meant,
		"  naupegos machine reinstall rack1-a --yes", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if err := v.h.Confirm(yes, "Overwrite the system disks of "+strings.Join(args, ", ")+" when they boot next?"); err != nil {
				return err
			}
			return v.do(ctx, c, args, "reinstall", client.Order{}, "may be installed again")
		})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return c
}

func (v *Verbs) forget() *cobra.Command {
	var yes bool
	c := v.verb("forget MACHINE...", "Forget physical machines",
		"Forget physical machines with all that is remembered of them; locks that they hold are given back. One that boots from the network again is a new one."+meant,
		"  naupegos machine forget rack1-a --yes", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if err := v.h.Confirm(yes, "Forget "+strings.Join(args, ", ")+"?"); err != nil {
				return err
			}
			for _, name := range args {
				if err := c.Forget(ctx, name); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(v.h.Out, "%s is forgotten\n", name); err != nil {
					return err
				}
			}
			return nil
		})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return c
}

func (v *Verbs) unlock() *cobra.Command {
	var yes bool
	c := v.verb("unlock GROUP HOLDER", "Take a place away from a holder that will not come back",
		"Take a place away from its holder, by the names that machine locks shows. Others may go on then: make sure that the holder does not reboot any more.",
		"  naupegos machine unlock reboot/demo 618e2763-e3ea-4f6a-b6e5-93d1bf7ab0c8 --yes", cobra.ExactArgs(2),
		func(ctx context.Context, c *client.Client, args []string) error {
			if err := v.h.Confirm(yes, "Let others of "+args[0]+" go on in the place of "+args[1]+"?"); err != nil {
				return err
			}
			if err := c.Unlock(ctx, args[0], args[1]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(v.h.Out, "%s has no place in %s any more\n", args[1], args[0])
			return err
		})
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return c
}

func (v *Verbs) schedule() *cobra.Command {
	var out output.Format
	var s client.Scheduling
	var selector, workers []string
	c := v.verb("schedule CLUSTER", "Choose the physical machines of a cluster",
		`Give a cluster the physical machines that it lacks: of those that are approved, free and whole, as its pools want them. The control plane gets
none before its whole odd number is there, and is spread over racks (--spread names their label), or over the switches that LLDP has seen.
Later on it gets what it lacks: a lost member costs one machine. Workers get what is left.`,
		"  naupegos machine schedule demo --control-plane 3 --workers general=5 --spread rack --dry-run\n  naupegos machine schedule demo --control-plane 3 --workers general=-1", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) (err error) {
			s.Cluster = args[0]
			if s.ControlPlane.Selector, err = pairs(selector); err != nil {
				return err
			}
			if s.Workers, err = pools(workers); err != nil {
				return err
			}
			d, err := c.Schedule(ctx, s)
			if err != nil {
				return err
			}
			return out.Print(v.h.Out, d, func(w io.Writer) error { return decision(w, d, s.DryRun) })
		})
	c.Flags().IntVar(&s.ControlPlane.Replicas, "control-plane", 1, "how many machines the control plane has: odd")
	c.Flags().StringSliceVar(&selector, "selector", nil, "label of machines for the control plane, KEY=VALUE (repeatable)")
	c.Flags().StringSliceVar(&workers, "workers", nil, "a pool of workers, POOL=NUMBER; -1: all that there are (repeatable)")
	c.Flags().StringVar(&s.Spread, "spread", "", "the label whose values are racks")
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "only say which machines it would get")
	out.Bind(c)
	return c
}

// pools reads POOL=NUMBER.
func pools(texts []string) (all []registry.Pool, err error) {
	for _, text := range texts {
		p := registry.Pool{}
		name, number, ok := strings.Cut(text, "=")
		if n, err := fmt.Sscanf(number, "%d", &p.Replicas); !ok || n != 1 || err != nil {
			return nil, fail.New(fail.Invalid, "%q is no pool", text).Do("write POOL=NUMBER, as general=3")
		}
		p.Name = name
		all = append(all, p)
	}
	return all, nil
}

func decision(w io.Writer, d registry.Decision, dry bool) error {
	if len(d.Given) > 0 {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "MACHINE\tPOOL\tPLACE\tRACK OR SWITCH")
		for _, g := range d.Given {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", g.Machine, g.Pool, g.Seat, output.Dash(g.Domain))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	words := "No machine was given away."
	switch {
	case dry && len(d.Given) > 0:
		words = "Nothing was given away: this is what would be."
	case len(d.Given) > 0:
		words = fmt.Sprintf("%d machines were given away.", len(d.Given))
	}
	for _, what := range d.Waiting {
		words += "\nStill to come: " + what + "."
	}
	_, err := fmt.Fprintln(w, words)
	return err
}
