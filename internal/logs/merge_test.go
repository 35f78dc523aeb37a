package logs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// at returns lines of one machine with times in seconds; -1 is the Present line.
func at(machine string, seconds ...int) <-chan Line {
	c := make(chan Line, len(seconds)+10)
	for _, s := range seconds {
		if s < 0 {
			c <- Line{Present: true}
			continue
		}
		c <- Line{Machine: machine, Time: time.Unix(int64(s), 0), Text: fmt.Sprint(s)}
	}
	return c
}

func closed(machine string, seconds ...int) <-chan Line {
	c := make(chan Line)
	go func() {
		defer close(c)
		for _, s := range seconds {
			c <- Line{Machine: machine, Time: time.Unix(int64(s), 0), Text: fmt.Sprint(s)}
		}
	}()
	return c
}

func collect(to *[]string) func(Line) error {
	return func(l Line) error {
		*to = append(*to, l.Machine+l.Text)
		return nil
	}
}

func TestMerge(t *testing.T) {
	for want, sources := range map[string][]<-chan Line{
		"":                        {},
		"a1 b2 a3 b3 a4":          {closed("a", 1, 3, 4), closed("b", 2, 3)},
		"b1 a5 a2 b9":             {closed("a", 5, 2), closed("b", 1, 9)}, // a clock was set back: each source keeps its order
		"b1 b2":                   {closed("a"), closed("b", 1, 2)},
		"a1 b1 a2 b2 a3 b3 c3 c4": {closed("a", 1, 2, 3), closed("b", 1, 2, 3), closed("c", 3, 4)},
	} {
		var got []string
		if _, err := Merge(t.Context(), sources, collect(&got)); err != nil || strings.Join(got, " ") != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
}

func TestMergeUntilPresent(t *testing.T) {
	a, b := at("a", 1, 5, -1, 7), closed("b", 2, 9)
	var got []string
	open, err := Merge(t.Context(), []<-chan Line{a, b}, collect(&got))
	if err != nil || strings.Join(got, " ") != "a1 b2 a5 b9" || len(open) != 1 || (<-open[0]).Text != "7" {
		t.Errorf("got %v, %v, %d go on", got, err, len(open))
	}
}

func TestMergeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Merge(ctx, []<-chan Line{make(chan Line)}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a source that says nothing: %v", err)
	}
	full := errors.New("full")
	if _, err := Merge(t.Context(), []<-chan Line{closed("a", 1)}, func(Line) error { return full }); !errors.Is(err, full) {
		t.Errorf("a reader that is gone: %v", err)
	}
}

// TestFollow: lines that arrive within Hold are sorted, later ones are not waited for, and floods are bounded.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan Line)
		var got []string
		ended := make(chan error, 1)
		go func() { ended <- Follow(t.Context(), c, collect(&got)) }()
		say := func(machine string, s int) {
			c <- Line{Machine: machine, Time: time.Unix(int64(s), 0), Text: fmt.Sprint(s)}
		}
		say("a", 2)
		say("b", 1)
		time.Sleep(2 * Hold)
		synctest.Wait()
		if strings.Join(got, " ") != "b1 a2" {
			t.Errorf("after a while: %v", got)
		}
		say("a", 9)
		time.Sleep(2 * Hold)
		say("b", 3) // too late
		close(c)
		if err := <-ended; err != nil || strings.Join(got, " ") != "b1 a2 a9 b3" {
			t.Errorf("at the end: %v, %v", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := make(chan Line)
		var seen atomic.Int64
		go func() {
			_ = Follow(t.Context(), c, func(Line) error { seen.Add(1); return nil })
		}()
		for i := range 3 * held {
			c <- Line{Time: time.Unix(int64(i), 0)}
		}
		synctest.Wait()
		if seen.Load() < held {
			t.Errorf("%d of %d lines were emitted while the rest came", seen.Load(), 3*held)
		}
		close(c)
		time.Sleep(2 * Hold)
		synctest.Wait()
		if seen.Load() != 3*held {
			t.Errorf("%d of %d lines were emitted", seen.Load(), 3*held)
		}
	})
}
