package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
)

// planTime bounds planning while an autoscaler waits for an answer.
const planTime = 2 * time.Minute

// Scale resizes one autoscaled pool of doc, the session's document. Apart from earlier resizes it changes nothing else: see cluster.PlanScale. It calls
// agreed with the pools once the new size is stored, then carries the plan out. After stop is closed it returns when the running steps are done.
func (s *Session) Scale(ctx context.Context, doc *v1alpha1.Cluster, pool string, to Resizing, t Terms, stop <-chan struct{}, agreed func([]scaling.Pool)) error {
	p := scaling.Find(doc, pool)
	if p == nil {
		return fail.New(fail.NotFound, "cluster %s has no pool %s that scales", doc.Metadata.Name, pool)
	}
	was := p.Count()
	size, gone, err := to(was)
	if err != nil {
		return err
	}
	planning, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	ap, err := s.Cluster.PlanScale(planning, pool, size, gone...)
	if err != nil {
		return err
	}
	t.Yes, s.subject, s.remark = true, pool, fmt.Sprintf("%d → %d", was, size)
	t.Commit = func(ctx context.Context) error {
		if _, _, err := to(was); err != nil { // fails if the caller is gone by now
			return err
		}
		if err := s.Commit(ctx, s.Record.Document); err != nil {
			return err
		}
		if err := s.Cluster.Decide(ctx, wanted.Remove, gone...); err != nil {
			return err
		}
		pools, err := s.Cluster.Pools(ctx)
		if err == nil {
			agreed(pools)
		}
		return err
	}
	t.Interrupts = func(ctx context.Context) (<-chan struct{}, context.Context, func()) { return stop, ctx, func() {} }
	_, err = s.Converge(ctx, ap, t)
	return err
}
