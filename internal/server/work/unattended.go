package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// Time limits of unattended tasks.
const (
	lookTime  = 10 * time.Minute
	proveTime = 25 * time.Minute // a rehearsal has no job that another server could find
)

// drift describes what apply would do; empty: nothing.
func (b *Board) drift(ctx context.Context, d *store.Duty) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	rec, err := b.c.Store.Cluster(ctx, d.Cluster)
	if err != nil {
		return "", err
	}
	st, err := b.c.Open(ctx)
	if err != nil {
		return "", err
	}
	asked := operate.Asked{Verb: operate.Apply, Document: string(rec.Document), From: "the stored document of " + d.Cluster}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{}))
	if err != nil {
		return "", err
	}
	text := begun.Drift()
	return text, begun.Close()
}

// rehearse proves the newest backup unless it is proven, and says which one. It does not use a job: a cluster has one job at a time, and a rehearsal
// changes nothing in the cluster that others must wait for.
func (b *Board) rehearse(ctx context.Context, d *store.Duty) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	st, err := b.c.Open(ctx)
	if err != nil {
		return "", err
	}
	asked := operate.Asked{Verb: operate.Rehearse, Cluster: d.Cluster}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{CarryOut: true}))
	if err != nil {
		return "", err
	}
	defer func() { err = begun.CloseWith(err) }()
	if begun.Idle {
		return "", nil
	}
	done, err := begun.CarryOut(ctx, operate.Terms{Front: unattendedFront{}, Meta: map[string]string{"version": b.c.Version, "by": Unattended}})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("backup %s is proven: %d objects, %d Secrets decrypted", done.Proof.Set, done.Proof.Objects, done.Proof.Secrets), nil
}

// unattendedFront is the front for work without a job and without questions.
type unattendedFront struct{}

// Show implements operate.Front.
func (unattendedFront) Show(*plan.Plan, string) error { return nil }

// Agree implements operate.Front.
func (unattendedFront) Agree(string) error {
	return fail.New(fail.Internal, "unattended work can't ask for agreement")
}

// Observer implements operate.Front: the journal records the progress.
func (unattendedFront) Observer() plan.Observer {
	return show.NewObserver(io.Discard, show.ObserveNone)
}

// unasked looks whether a verb has anything to do. If so, it adds a job for the verb and waits for its end.
func (b *Board) unasked(ctx context.Context, d *store.Duty) (string, error) {
	wanted, note, err := b.wanted(ctx, d.Cluster, d.Kind)
	if err != nil {
		return "", err
	}
	if !wanted {
		if note != "" {
			return "", fail.New(fail.Refused, "%s", note)
		}
		return "", nil
	}
	j, err := b.add(ctx, Unattended, d.Cluster, queued{Unasked: true, Order: Order{Asked: operate.Asked{Verb: d.Kind, Cluster: d.Cluster}, Yes: true}})
	if err != nil {
		return "", err
	}
	d.Job = j.ID
	tick := time.NewTicker(look)
	defer tick.Stop()
	for j.State != store.JobEnded {
		select {
		case <-tick.C:
		case <-ctx.Done(): // the job continues without this server
			return "", ctx.Err()
		}
		if j, err = b.c.Store.Job(ctx, d.Job); err != nil {
			return "", err
		}
	}
	var r Result
	if err := json.Unmarshal(j.Result, &r); err != nil {
		return "", fail.Wrap(fail.Internal, err, "read the outcome of job %s", j.ID)
	}
	if err := r.Err(); err != nil {
		return "", err
	}
	if r.Changed {
		return d.Kind + " is done", nil
	}
	return "nothing was left to be done", nil
}

// wanted reports whether a verb has anything to do, without taking the cluster's lease. note describes problems that the verb can't solve.
func (b *Board) wanted(ctx context.Context, name, verb string) (wanted bool, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	st, err := b.c.Open(ctx)
	if err != nil {
		return false, "", err
	}
	asked := operate.Asked{Verb: verb, Cluster: name}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{Look: true}))
	if err != nil {
		return false, "", err
	}
	if r := begun.Found.Round; r != nil && begun.Idle && len(r.Stuck) > 0 {
		note = strings.Join(r.Stuck, ", ") + " can't be repaired any further"
	}
	return !begun.Idle, note, begun.Close()
}
