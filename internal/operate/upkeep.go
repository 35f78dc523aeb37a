package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// Update says which machines to update or to reboot: by default all, if they need it, within the document's window.
type Update struct {
	RebootOnly bool   `json:"rebootOnly,omitempty" doc:"Reboot machines, whether they need it or not, without updating packages"`
	Pool       string `json:"pool,omitempty" maxLength:"63" doc:"Only the workers of this pool"`
	Machine    string `json:"machine,omitempty" maxLength:"63" doc:"Only this machine"`
	Now        bool   `json:"now,omitempty" doc:"Also outside of spec.updates.os.window"`
}

func checkUpdate(a *Asked) error {
	if u := a.Update; u != nil && u.Pool != "" && u.Machine != "" {
		return fail.New(fail.Invalid, "update: a pool and a machine exclude each other")
	}
	return nil
}

func planUpdate(ctx context.Context, b *Begun) error {
	var o cluster.UpdateOptions
	if u := b.Asked.Update; u != nil {
		o = cluster.UpdateOptions{RebootOnly: u.RebootOnly, Pool: u.Pool, Machine: u.Machine, Now: u.Now}
	}
	if b.before == nil { // for the first plan
		b.tell("Asking the machines of cluster %s for available updates.", b.Asked.Cluster)
	}
	u, err := b.Cluster.PlanUpdate(ctx, o)
	if err != nil {
		return err
	}
	b.only(u.Plan)
	if b.Idle = u.Plan.Empty(); !b.Idle {
		b.Closed = u.Closed
	}
	b.before = func(ctx context.Context) error { return b.Cluster.BeginUpdate(ctx, u) }
	return nil
}

// planRenew plans to renew the certificates that are due, and nothing else. If none is due, b is Idle.
func planRenew(ctx context.Context, b *Begun) error {
	due, next, err := b.Due(ctx)
	if err != nil {
		return err
	}
	b.Found.Next = next
	if b.Idle = len(due) == 0; b.Idle || b.look {
		b.only(&plan.Plan{Verb: Renew, Cluster: b.Record.Name})
		return nil
	}
	if b.First, err = b.Cluster.PlanRenewal(ctx); err != nil {
		return err
	}
	first := b.First
	b.carry = func(ctx context.Context, t Terms) (done Done, err error) {
		if done.Changed, err = b.Converge(ctx, first, t); err != nil {
			return done, err
		}
		return b.renewed(ctx, due, done)
	}
	return nil
}

// renewed adds to done the certificates of due (see Due) that are renewed now, and the next renewal. It returns fail.NotReady if some are still due.
func (b *Begun) renewed(ctx context.Context, due map[string]string, done Done) (Done, error) {
	certs, err := b.Cluster.Certificates(ctx)
	if err != nil {
		return done, err
	}
	var still []string
	for _, c := range certs {
		switch was := due[c.Name]; {
		case c.CA:
			continue
		case was != "" && was == c.Fingerprint:
			still = append(still, c.Name)
		case was != "":
			done.Renewed = append(done.Renewed, c.Name)
		}
		if done.Next.IsZero() || c.RenewAt.Before(done.Next) {
			done.Next = c.RenewAt
		}
	}
	if len(still) > 0 {
		return done, fail.New(fail.NotReady, "cluster %s: due still are %s", b.Record.Name, strings.Join(still, ", ")).Do("naupegos apply shows the reason")
	}
	return done, nil
}

// planRepair plans one round of repair.
func planRepair(ctx context.Context, b *Begun) error {
	r, err := &cluster.Repair{}, error(nil)
	if b.look {
		r.Round, err = b.Cluster.LookForSick(ctx, b.Asked.Machine)
	} else {
		r, err = b.Cluster.PlanRepair(ctx, b.Asked.Machine)
	}
	if err != nil {
		return err
	}
	b.Found.Round = &r.Round
	if b.subject = r.Machine; r.Machine != "" {
		b.remark = "(" + string(r.Rung) + ")"
	}
	if b.First = r.Applied; b.First == nil {
		b.First = &cluster.Applied{Plan: &plan.Plan{Verb: Repair, Cluster: b.Record.Name}}
	} else {
		b.First.Plan.Warnings = append(b.First.Plan.Warnings, r.Notes...)
	}
	b.Idle = r.Machine == "" && !b.Remembers()
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		return Done{Changed: r.Applied != nil, Round: &r.Round}, b.Session.Repair(ctx, r, t)
	}
	return nil
}

func checkRecover(a *Asked) error {
	if a.Machine == "" {
		return fail.New(fail.Invalid, "no remaining machine is given").Do("--from MACHINE; naupegos status %s names the control-plane machines", a.Cluster)
	}
	return nil
}

// planRecover plans to restart etcd from one member, and apply afterwards. If a resumed request has recovered etcd already, it plans only apply.
func planRecover(ctx context.Context, b *Begun) error {
	from := b.Asked.Machine
	if last := b.Cluster.LastRecovery(); b.Asked.Resumed && last != nil && last.Done && last.From == from {
		return b.planApply(ctx)
	}
	p, err := b.Cluster.PlanRecover(ctx, from)
	if err != nil {
		return err
	}
	b.First, b.later = &cluster.Applied{Plan: p}, "Once this is done, apply joins the other control-plane machines again."
	b.carry = func(ctx context.Context, t Terms) (done Done, err error) {
		if err := b.Session.CarryOut(ctx, p, t); err != nil {
			return done, err
		}
		done.Changed = true
		if r := b.Cluster.LastRecovery(); r != nil && r.Left != nil {
			done.Said = fmt.Sprintf("Etcd of cluster %s runs on from %s: everything up to revision %d is there, what was written after it is lost; %d entries of its log were dropped "+
				"that it did not know to be agreed. The next revision is %d.", b.Record.Name, from, r.Left.Revision, r.Left.Discarded, r.Left.Next())
		}
		first, err := b.Cluster.PlanApply(ctx)
		if err != nil {
			return done, err
		}
		t.Question, t.Commit, t.Reviewed, t.Agreed = "Join the other control-plane machines again?", nil, false, nil
		_, err = b.Converge(ctx, first, t)
		return done, err
	}
	return nil
}

// Due returns the cluster's certificates that are due, authorities excluded, as fingerprints by name, and when the next of the others becomes due.
func (s *Session) Due(ctx context.Context) (due map[string]string, next time.Time, err error) {
	certs, err := s.Cluster.Certificates(ctx)
	now := time.Now()
	due = map[string]string{}
	for _, c := range certs {
		switch {
		case c.CA:
		case c.Due(now):
			due[c.Name] = c.Fingerprint
		case next.IsZero() || c.RenewAt.Before(next):
			next = c.RenewAt
		}
	}
	return due, next, err
}
