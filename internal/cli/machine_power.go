package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
)

// power is a verb that switches machines.
type power struct {
	verb   string
	states []string // of provider.Power, one after another
	done   string
	ask    bool // whatever runs there is disturbed
	short  string
	long   string
}

func powers() []power {
	return []power{
		{verb: "start", states: []string{"on"}, done: "runs", short: "Switch machines on",
			long: "Switch machines on, and wait until they have booted. A machine that runs already is fine."},
		{verb: "stop", states: []string{"off"}, done: "is off", ask: true, short: "Shut machines down",
			long: "Have machines shut down cleanly. Their pods are not drained before: see naupegos node drain."},
		{verb: "kill", states: []string{"kill"}, done: "is dead", ask: true, short: "Switch machines off at once",
			long: "Switch machines off as if their power had failed: to try what a cluster survives."},
		{verb: "reboot", states: []string{"off", "on"}, done: "has rebooted", ask: true, short: "Shut machines down and switch them on again",
			long: "Have machines shut down cleanly, switch them on again and wait until they have booted. Several at once reboot at once."},
	}
}

func newPowerCmd(a *App, p power) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     p.verb + " NAME [MACHINE...]",
		Short:   p.short,
		Long:    p.long + "\n\nWithout a MACHINE, all machines of the cluster are meant.",
		Example: fmt.Sprintf("  naupegos machine %s demo demo-general-1\n  naupegos machine %s demo", p.verb, p.verb),
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.switchMachines(cmd.Context(), p, args[0], unique(args[1:]), &f)
		},
	}
	if p.ask {
		c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do it without asking")
	} else {
		f.yes = true
	}
	return c
}

func (a *App) switchMachines(ctx context.Context, p power, name string, machines []string, f *runFlags) error {
	s, _, err := a.openNamed(ctx, name, sessionOptions{verb: "machine " + p.verb, bundle: haveBundle})
	if err != nil {
		return err
	}
	defer s.Close()
	all := len(machines) == 0
	if machines, err = s.cluster.CheckMachines(ctx, machines); err != nil {
		return err
	}
	if all {
		if err := a.confirm(f, fmt.Sprintf("%s: all %d of cluster %s?", p.short, len(machines), name)); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(machines))
	var mu sync.Mutex // of the output
	for i, m := range machines {
		wg.Go(func() {
			for _, state := range p.states {
				if errs[i] = s.cluster.Provider().Power(ctx, m, state); errs[i] != nil {
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(a.Out, "%s %s\n", m, p.done)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
