package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// failing is a side whose create fails halfway.
type failing struct{ destroyed bool }

func (f *failing) name() string                  { return "failing" }
func (f *failing) create(context.Context) error  { return errors.New("no valid host") }
func (f *failing) nothing(context.Context) error { return nil }
func (f *failing) destroy(context.Context) error { f.destroyed = true; return nil }

func TestFailedSideIsCleanedUp(t *testing.T) {
	c, err := newCounter()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := &failing{}
	_, err = (&bench{counter: c, out: io.Discard, limit: time.Minute}).measure(context.Background(), f)
	if err == nil || !strings.Contains(err.Error(), "no valid host") {
		t.Errorf("the error is %v", err)
	}
	if !f.destroyed {
		t.Error("objects from before the failure are left")
	}
}

func TestRatiosAreAgainstTheBest(t *testing.T) {
	s := func(n int) phase { return phase{took: time.Duration(n) * time.Second} }
	var out strings.Builder
	ratios(&out, result{create: s(10), nothing: s(1), destroy: s(9)}, result{create: s(8)}, []result{
		{create: s(40), nothing: s(10), destroy: s(10)}, {create: s(20), nothing: s(20), destroy: s(30)},
	})
	if want := "create ratio: 0.50\n  (0.40 for the services alone)\nfloor ratio: 1.25\nno-change ratio: 0.10\ndestroy ratio: 0.90\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		took []time.Duration
		want time.Duration
	}{{[]time.Duration{7}, 7}, {[]time.Duration{9, 1, 2}, 2}, {[]time.Duration{4, 3, 2, 1}, 2}, {[]time.Duration{5, 90, 1, 6, 2}, 5}} {
		var all []phase
		for i, took := range c.took {
			all = append(all, phase{took: took, calls: i})
		}
		if got := median(all); got.took != c.want {
			t.Errorf("the median of %v is %v", c.took, got.took)
		}
	}
}
