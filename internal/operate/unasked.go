package operate

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Repair carries out a round of repair. It stores the facts of the round even if the round changes nothing.
func (s *Session) Repair(ctx context.Context, r *cluster.Repair, t Terms) error {
	commit := func(ctx context.Context) error { return s.Commit(ctx, s.Record.Document) }
	if r.Applied == nil {
		return commit(ctx)
	}
	t.Commit = commit
	if !r.Rung.Replaces() {
		return s.CarryOut(ctx, r.Applied.Plan, t)
	}
	t.Commit = func(ctx context.Context) error {
		if err := commit(ctx); err != nil {
			return err
		}
		return s.Cluster.Decide(ctx, r.Decision(), r.Machine)
	}
	_, err := s.Converge(ctx, r.Applied, t)
	return err
}

// Drift names the number of steps that apply would take, and the first of them; empty if the cluster is as its document says.
func (b *Begun) Drift() string {
	steps := b.First.Plan.Steps
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf("apply would do %s: %s", words.Count(len(steps), "step", "steps"), steps[0].Title)
}

// Remembers reports whether the session has learned facts about the cluster that are not stored yet.
func (s *Session) Remembers() bool { return !maps.Equal(s.Found.Facts, s.Record.Facts) }

// Expiry returns when the first authority and the first other certificate of the session's cluster expire. A zero time means that there is none.
func (s *Session) Expiry(ctx context.Context) (authority, leaf time.Time, err error) {
	certs, err := s.Cluster.Certificates(ctx)
	for _, c := range certs {
		first := &leaf
		if c.CA {
			first = &authority
		}
		if first.IsZero() || c.NotAfter.Before(*first) {
			*first = c.NotAfter
		}
	}
	return authority, leaf, err
}
