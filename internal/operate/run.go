package operate

import (
	"context"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// Front shows plans to the user and asks for agreement: at the command's terminal, or by a server's job, which has only the agreement given in advance.
type Front interface {
	// Show shows a plan before agreement; later says why there may be more to do after the plan (empty: there is not).
	Show(p *plan.Plan, later string) error
	// Agree asks a question. An error says that the answer was not yes.
	Agree(question string) error
	// Observer returns a new observer, for one run.
	Observer() plan.Observer
}

// Terms say how a verb's plans are carried out.
type Terms struct {
	Front    Front
	Question string                      // asked below the first plan
	Reviewed bool                        // the first plan has agreement already: show it without asking
	Agreed   *plan.Plan                  // plan agreed to in an earlier process: ask only if the first plan exceeds it. nil: none
	Plain    bool                        // the verb does exactly what its name says: neither show its plan nor ask
	Yes      bool                        // Front agrees to every question; removals must have been shown all the same
	Consents []string                    // names of the consents given
	Parallel int                         // maximum of concurrent steps; 0: plan.Options' default
	Step     time.Duration               // timeout of steps without their own
	Commit   func(context.Context) error // called after the agreement, before the first step, to store the wanted state; may be nil
	// Interrupts lets the user stop runs: see plan.Interruptible. nil: only the context stops them.
	Interrupts func(context.Context) (soft <-chan struct{}, hard context.Context, stop func())
	Meta       map[string]string                 // of the run, in the journal
	Hook       func(stepID string, p plan.Phase) // for crash tests
}

// CarryOut shows one plan, asks, commits and carries it out.
func (s *Session) CarryOut(ctx context.Context, p *plan.Plan, t Terms) error {
	if err := s.begin(ctx, p, "", t); err != nil {
		return err
	}
	return s.execute(ctx, p, t)
}

// begin shows the first plan, checks consents, asks, and commits. For a plan without steps, and for a plain verb, it only commits.
func (s *Session) begin(ctx context.Context, p *plan.Plan, later string, t Terms) error {
	if t.Agreed != nil {
		if err := further(p, shownBefore(t.Agreed), t); err != nil {
			return err
		}
	} else if !p.Empty() && !t.Plain {
		if err := t.Front.Show(p, later); err != nil {
			return err
		}
		if err := p.CheckConsents(t.Consents); err != nil {
			return err
		}
		if !t.Reviewed {
			if err := t.Front.Agree(t.Question); err != nil {
				return err
			}
		}
	}
	if t.Commit == nil {
		return nil
	}
	return t.Commit(ctx)
}

// retryMax is the longest pause between two attempts of a step. Steps wait for nearby events (a machine boots, a server starts), and polling is cheap.
const retryMax = 500 * time.Millisecond

// execute carries a plan out under the lease, with progress and journal. Before each step it checks the document's credentials; before an irrevocable step
// also, in the store, that the lease is still held: a process that was suspended may not have noticed that another one took over.
func (s *Session) execute(ctx context.Context, p *plan.Plan, t Terms) error {
	s.entitle(p)
	var soft <-chan struct{}
	if t.Interrupts != nil {
		var stop func()
		soft, ctx, stop = t.Interrupts(ctx)
		defer stop()
	}
	var lost <-chan struct{} // stays nil, and never fires, if the verb needs no lease
	if s.lease != nil {
		lost = s.lease.Lost()
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // without the lease another process may be at work: stop at once
		select {
		case <-lost:
			cancel()
		case <-work.Done():
		}
	}()
	var evidence func() *plan.Evidence
	if s.witnessed() && !p.Empty() {
		evidence = sync.OnceValue(s.witness(work, p))
		defer evidence() // ends the probe of a run that did not begin
	}
	began := time.Now()
	result, err := plan.Execute(work, p, plan.Options{
		Parallel: t.Parallel, Timeout: t.Step, Consents: t.Consents, RetryMax: retryMax,
		Journal: s.Store.Journal(s.Record.ID), Observer: t.Front.Observer(), Stop: soft, Hook: t.Hook, Meta: t.Meta, Evidence: evidence,
		Before: func(ctx context.Context, st *plan.Step) error {
			if err := s.checkCredentials(ctx); err != nil {
				return err
			}
			if !irrevocable(st) {
				return nil
			}
			if s.lease == nil {
				return fail.New(fail.Internal, "%s takes something away without the cluster's lease", st.ID)
			}
			return s.lease.Check(ctx)
		},
	})
	s.ran += time.Since(began)
	if result != nil {
		s.evidence = s.evidence.Add(result.Evidence)
	}
	select {
	case <-lost:
		return fail.Wrap(fail.Conflict, err, "the lease on cluster %s was lost", p.Cluster).Do("look at naupegos status %s, then run the same command again", p.Cluster)
	default:
		return err
	}
}
