package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// runFlags are the flags of every verb that carries out a plan.
type runFlags struct {
	yes      bool
	consents consents
	parallel atLeastOne
	progress progress
}

func (f *runFlags) bind(c *cobra.Command) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "carry the plan out without asking")
	c.Flags().Var(&f.consents, "consent", "consent to a kind of disruption that the plan names (repeatable)")
	f.parallel = 16
	c.Flags().Var(&f.parallel, "parallel", "most steps at once")
	c.Flags().Var(&f.progress, "progress", "how progress is shown: tty, plain, json or none (default tty on a terminal, else plain)")
}

// consents is the value of --consent. A name that no plan asks for is a slip, and told at once: the plan's refusal would come late, or never.
type consents []string

// String lists the names.
func (c *consents) String() string { return strings.Join(*c, ",") }

// Type is what help calls the value.
func (c *consents) Type() string { return "strings" }

// Set adds names, which commas part.
func (c *consents) Set(names string) error {
	known := cluster.Consents()
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(known, name) {
			return fmt.Errorf("no plan asks for consent to %q; there are %s", name, strings.Join(known, ", "))
		}
		*c = append(*c, name)
	}
	return nil
}

// carryOut is what is asked of whoever has seen a plan.
const carryOut = "Carry this out?"

// agree shows a plan and asks whether to carry it out. To those who said yes already only its warnings are shown.
func (a *App) agree(f *runFlags, p *plan.Plan, question string) error {
	if f.yes {
		return p.WriteWarnings(a.Err, a.Color(a.Err))
	}
	if err := p.WriteText(a.Err, a.Color(a.Err)); err != nil {
		return err
	}
	return a.confirm(f, question)
}

// confirm asks the user, unless they said yes already.
func (a *App) confirm(f *runFlags, question string) error {
	if f.yes {
		return nil
	}
	if !isTerminal(a.In) {
		return fail.New(fail.Refused, "%s needs an answer, and standard input is no terminal", question).Do("add --yes")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return fail.Wrap(fail.Internal, err, "read the answer")
	}
	if l := strings.ToLower(strings.TrimSpace(line)); l != "y" && l != "yes" {
		return fail.New(fail.Interrupted, "not confirmed: nothing was changed")
	}
	return nil
}

// execute carries a plan out under the session's lease, with progress and journal.
func (s *session) execute(ctx context.Context, p *plan.Plan, f *runFlags, step time.Duration) error {
	soft, hard, stop := plan.Interruptible(ctx)
	defer stop()
	work, cancel := context.WithCancel(hard)
	defer cancel()
	go func() { // without the lease somebody else may be at work: stop at once
		select {
		case <-s.lease.Lost():
			cancel()
		case <-work.Done():
		}
	}()
	_, err := plan.Execute(work, p, plan.Options{
		Parallel: int(f.parallel), Timeout: step, Consents: f.consents, RetryMax: retryMax,
		Journal:  s.store.Journal(s.rec.ID),
		Observer: plan.NewObserver(s.app.Err, plan.ObserverKind(f.progress)),
		Stop:     soft, Hook: killPoint(), Meta: map[string]string{"version": version},
	})
	select {
	case <-s.lease.Lost():
		return fail.Wrap(fail.Conflict, err, "the lease on cluster %s was lost", p.Cluster).Do("look at naupegos status %s, then run the same command again", p.Cluster)
	default:
		return err
	}
}

// retryMax is the longest pause between two attempts of a step: what is waited for is near (a machine booting, a server
// starting), and asking costs little.
const retryMax = 500 * time.Millisecond
