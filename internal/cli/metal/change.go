package metal

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// do performs a verb on each machine, and prints the result.
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
	c := v.verb("approve MACHINE...", "Approve physical machines for use",
		`Approve physical machines for use, and accept the keys that they ask with as theirs: from now on the server gives a
machine its configuration only if it proves that it has its key. --key names the key by its fingerprint, which you compare
with the one on the machine's console. A machine that has shown a key is approved by --key only. Where several claim to be
the same machine, machine show lists them; approving one drops the others. One without a key is named by mac:ADDRESS then.`+meant,
		"  naupegos machine approve 52:54:00:aa:bb:cc --key 5f2c…\n  naupegos machine approve older-1   # it has no key", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if o.Key != "" && len(args) > 1 {
				return fail.New(fail.Invalid, "--key is the key of one machine, and several are named").Do("approve machines with --key one by one")
			}
			return v.do(ctx, c, args, "approve", o, "is approved")
		})
	c.Flags().StringVar(&o.Key, "key", "", "fingerprint of the key to approve (required if the machine has one)")
	return c
}

func (v *Verbs) reject() *cobra.Command {
	return v.verb("reject MACHINE...", "Reject physical machines", "Reject physical machines: they are not used, and their keys are not accepted."+meant,
		"  naupegos machine reject 52:54:00:aa:bb:cc", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "reject", client.Order{}, "is rejected")
		})
}

func (v *Verbs) name() *cobra.Command {
	return v.verb("name MACHINE [NAME]", "Name a physical machine", "Name a physical machine. Without NAME, remove its name."+meant,
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
	return v.verb("label MACHINE KEY=VALUE...", "Label a physical machine", "Set labels on a physical machine; KEY- removes one. Clusters choose machines by labels, and spread over them."+meant,
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
	c := v.verb("assign MACHINE...", "Assign physical machines to a pool of a cluster",
		"Assign physical machines to a pool of a cluster by hand. naupegos machine schedule chooses them for you."+meant,
		"  naupegos machine assign rack1-a --cluster demo --pool control-plane", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "assign", o, "is "+o.Cluster+"'s, pool "+o.Pool)
		})
	c.Flags().StringVar(&o.Cluster, "cluster", "", "the cluster")
	c.Flags().StringVar(&o.Pool, "pool", registry.ControlPlanePool, "the pool")
	c.PreRunE = func(*cobra.Command, []string) error { // before a server is looked for
		if o.Cluster == "" {
			return fail.New(fail.Invalid, "no cluster is given").Do("name it: --cluster NAME")
		}
		return nil
	}
	return c
}

func (v *Verbs) unassign() *cobra.Command {
	return v.verb("unassign MACHINE...", "Take physical machines out of their pools", "Take physical machines out of their pools, and remove all roles from them. Their disks are not changed."+meant,
		"  naupegos machine unassign rack1-a", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			return v.do(ctx, c, args, "unassign", client.Order{}, "is free")
		})
}

func (v *Verbs) maintenance() *cobra.Command {
	var why string
	var end bool
	c := v.verb("maintenance MACHINE...", "Put physical machines into maintenance, or end it",
		"Put physical machines into maintenance: they are neither given to clusters nor installed. --why gives the reason, which\neveryone sees; --end ends the maintenance."+meant,
		"  naupegos machine maintenance rack1-a --why 'fan is loud'\n  naupegos machine maintenance rack1-a --end", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			switch {
			case end == (why != ""):
				return fail.New(fail.Invalid, "one of --why and --end is required").Do("give the reason with --why, or end the maintenance with --end")
			case end:
				return v.do(ctx, c, args, "maintenance", client.Order{}, "can be used again")
			}
			return v.do(ctx, c, args, "maintenance", client.Order{Why: why}, "is in maintenance")
		})
	c.Flags().StringVar(&why, "why", "", "reason for the maintenance")
	c.Flags().BoolVar(&end, "end", false, "end the maintenance")
	return c
}

func (v *Verbs) strategy() *cobra.Command {
	return v.verb("strategy MACHINE [STRATEGY]", "Set how a physical machine takes updates",
		`Set how a running physical machine takes a changed installation: live changes SSH keys only; reboot, kexec and poweroff
write the other slot of its disk, wait until the machine may reboot, and then start it; none does nothing. Without
STRATEGY the machine takes no updates. naupegos update sets the strategy of machines in clusters, by their pools.`+meant,
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
	var yes, cancel bool
	var o client.Order
	c := v.verb("reinstall MACHINE...", "Allow physical machines to be installed again",
		`Allow physical machines to be installed again when they next boot from the network, whatever the result of the previous
installation. The contents of their system disks are lost then. A disk with other data is overwritten only if --wipe names
it here: the --wipe of an installation ends with that installation. --cancel takes the permission back, until the
installation begins.`+meant,
		"  naupegos machine reinstall rack1-a --yes\n  naupegos machine reinstall rack1-a --cancel", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if cancel {
				return v.do(ctx, c, args, "keep", client.Order{}, "is kept as it is")
			}
			if err := v.h.Confirm(yes, "Overwrite the system disks of "+strings.Join(args, ", ")+" when they boot next?"); err != nil {
				return err
			}
			return v.do(ctx, c, args, "reinstall", o, "may be installed again")
		})
	c.Flags().StringSliceVar(&o.Wipe, "wipe", nil, "serial number or WWID of a disk that may be overwritten, whatever is on it (repeatable)")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&cancel, "cancel", false, "keep the machines as they are")
	return c
}

func (v *Verbs) forget() *cobra.Command {
	var yes bool
	c := v.verb("forget MACHINE...", "Forget physical machines",
		"Forget physical machines and everything recorded about them, and release the locks that they hold. A forgotten machine that\nboots from the network again is a new one."+meant,
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
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

func (v *Verbs) unlock() *cobra.Command {
	var yes bool
	c := v.verb("unlock GROUP HOLDER", "Release a lock whose holder will not come back",
		"Release a lock that machine locks shows, by its group and holder. Other machines then continue: make sure first that the\nholder is not being installed or rebooted any more.",
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
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

func (v *Verbs) schedule() *cobra.Command {
	var out output.Format
	var s client.Scheduling
	var selector, workers []string
	c := v.verb("schedule CLUSTER", "Choose physical machines for a cluster",
		`Assign to a cluster the physical machines that it lacks, chosen from those that are approved, free and healthy, as its
pools want them. The control plane gets none until its whole odd number is available, and is spread over racks (--spread
names their label), or over the switches that LLDP has seen. Run later, it fills gaps: one machine for one lost member.
Workers get what is left.`,
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
	c.Flags().IntVar(&s.ControlPlane.Replicas, "control-plane", 1, "number of control-plane machines, odd")
	c.Flags().StringSliceVar(&selector, "selector", nil, "label of machines for the control plane, KEY=VALUE (repeatable)")
	c.Flags().StringSliceVar(&workers, "workers", nil, "pool of workers, POOL=NUMBER; -1 for all that are available (repeatable)")
	c.Flags().StringVar(&s.Spread, "spread", "", "the label whose values are racks")
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "only say which machines it would get")
	out.Bind(c)
	return c
}

// pools parses POOL=NUMBER.
func pools(texts []string) (all []registry.Pool, err error) {
	for _, text := range texts {
		p := registry.Pool{}
		name, number, ok := strings.Cut(text, "=")
		if n, err := fmt.Sscanf(number, "%d", &p.Replicas); !ok || n != 1 || err != nil {
			return nil, fail.New(fail.Invalid, "%q is not a pool", text).Do("write POOL=NUMBER, as general=3")
		}
		p.Name = name
		all = append(all, p)
	}
	return all, nil
}

func decision(w io.Writer, d registry.Decision, dry bool) error {
	if len(d.Given) > 0 {
		t := output.NewTable(w)
		t.Head("MACHINE\tPOOL\tPLACE\tRACK OR SWITCH")
		for _, g := range d.Given {
			t.Row("%s\t%s\t%d\t%s\n", g.Machine, g.Pool, g.Seat, output.Dash(g.Domain))
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
