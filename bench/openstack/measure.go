package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// side creates the cluster's infrastructure in one of the compared ways.
type side interface {
	name() string
	create(ctx context.Context) error
	nothing(ctx context.Context) error // a second run; fails if it finds anything to do
	destroy(ctx context.Context) error
}

// phase is the cost of one phase of a side.
type phase struct {
	took         time.Duration
	calls, reads int // API calls, and how many of them only read
}

// result is one run of a side.
type result struct {
	name                     string
	create, nothing, destroy phase
	made                     contents
}

// bench measures the sides in one project.
type bench struct {
	look    *session // logged in to the project
	through *session // the same, through the counter
	counter *counter
	out     io.Writer
	limit   time.Duration // of each phase
	looks   int           // number of no-change runs of a side; the median counts
	verbose bool          // print the calls
}

// measure runs the three phases of a side and lists the project after the first and the last. It removes everything a failed side created.
func (b *bench) measure(ctx context.Context, s side) (r result, err error) {
	r.name = s.name()
	made := false
	defer func() {
		if made {
			fmt.Fprintf(b.out, "%s: cleaning up after a failure\n", s.name())
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.limit)
			defer cancel()
			err = errors.Join(err, s.destroy(late))
		}
	}()
	made = true
	if r.create, err = b.phase(ctx, s, "create", s.create); err != nil {
		return r, err
	}
	if r.made, err = b.look.read(ctx); err != nil {
		return r, err
	}
	var looks []phase
	for range max(1, b.looks) {
		p, err := b.phase(ctx, s, "no-change", s.nothing)
		if err != nil {
			return r, err
		}
		looks = append(looks, p)
	}
	r.nothing = median(looks)
	if r.destroy, err = b.phase(ctx, s, "destroy", s.destroy); err != nil {
		return r, err
	}
	made = false
	return r, b.empty(ctx, s)
}

// median returns the phase with the median time.
func median(all []phase) phase {
	slices.SortFunc(all, func(a, b phase) int { return cmp.Compare(a.took, b.took) })
	return all[(len(all)-1)/2]
}

func (b *bench) phase(ctx context.Context, s side, what string, run func(context.Context) error) (phase, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	b.counter.take()
	began := time.Now()
	err := run(ctx)
	p := phase{took: time.Since(began)}
	calls := b.counter.take()
	p.calls, p.reads = sum(calls)
	if err != nil {
		if b.verbose {
			printCalls(b.out, calls)
		}
		return p, fmt.Errorf("%s: %s, after %.0f s: %w", s.name(), what, p.took.Seconds(), err)
	}
	fmt.Fprintf(b.out, "%-24s %-9s %7.1f s %6d API calls\n", s.name(), what, p.took.Seconds(), p.calls)
	if b.verbose {
		printCalls(b.out, calls)
	}
	return p, nil
}

// empty waits until the project is empty, because Nova removes a server's volume after the server. The side has reported success, so the wait is
// short.
func (b *bench) empty(ctx context.Context, s side) error {
	began := time.Now()
	for {
		c, err := b.look.read(ctx)
		if err != nil {
			return err
		}
		left := c.describe()
		switch since := time.Since(began); {
		case len(left) == 0:
			if since > 5*time.Second {
				fmt.Fprintf(b.out, "%s: the project was empty only %.0f s after it had ended\n", s.name(), since.Seconds())
			}
			return nil
		case since > time.Minute:
			return fmt.Errorf("%s: after destroy there is still: %s", s.name(), strings.Join(left.diff(s.name(), nil, "nobody"), "; "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// same returns an error if two sides did not create the same objects.
func same(a, b result) error {
	if d := a.made.describe().diff(a.name, b.made.describe(), b.name); len(d) > 0 {
		return fmt.Errorf("the sides did not make the same:\n  %s", strings.Join(d, "\n  "))
	}
	return nil
}
