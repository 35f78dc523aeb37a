package logs

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// Limits for merging lines that are still being written.
const (
	// Hold is how long a new line waits for older lines of other sources.
	Hold = 300 * time.Millisecond
	// held is the maximum number of waiting lines; sources that write faster have to wait.
	held = 4096
)

// Merge calls emit for the lines of several sources, sorted by time; the lines of each source keep their order. It reads a source until the source is
// closed or sends a Present line. It returns the sources that sent Present, from which more lines may be read.
func Merge(ctx context.Context, sources []<-chan Line, emit func(Line) error) (open []<-chan Line, err error) {
	var heads merging
	next := func(n int) error {
		select {
		case l, ok := <-sources[n]:
			switch {
			case ok && l.Present:
				open = append(open, sources[n])
			case ok:
				heap.Push(&heads, item{l, n, 0})
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for n := range sources {
		if err := next(n); err != nil {
			return nil, err
		}
	}
	for len(heads) > 0 {
		first, _ := heap.Pop(&heads).(item)
		if err := emit(first.line); err != nil {
			return nil, err
		}
		if err := next(first.source); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// Follow calls emit for lines as they arrive, and sorts lines that arrive at about the same time. It returns when lines is closed.
func Follow(ctx context.Context, lines <-chan Line, emit func(Line) error) error {
	var waiting merging
	tick := time.NewTicker(Hold / 3)
	defer tick.Stop()
	for n := 0; ; n++ {
		in := lines
		if len(waiting) >= held {
			in = nil
		}
		var before time.Time // lines that arrived before are due
		select {
		case l, ok := <-in:
			if !ok {
				return waiting.flush(time.Time{}, emit)
			}
			heap.Push(&waiting, item{l, n, time.Now().UnixNano()})
			continue
		case now := <-tick.C:
			before = now.Add(-Hold)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := waiting.flush(before, emit); err != nil {
			return err
		}
	}
}

// item is a waiting line. arrived is a time in nanoseconds.
type item struct {
	line    Line
	source  int // or its sequence number: lines with the same time keep this order
	arrived int64
}

// merging is a heap of lines, oldest first.
type merging []item

// flush emits the lines up to the last one that arrived before a time; the zero time means all lines.
func (m *merging) flush(before time.Time, emit func(Line) error) error {
	due := 0
	sorted := slices.Clone(*m)
	slices.SortFunc(sorted, compare)
	for i, it := range sorted {
		if before.IsZero() || it.arrived <= before.UnixNano() {
			due = i + 1
		}
	}
	for _, it := range sorted[:due] {
		if err := emit(it.line); err != nil {
			return err
		}
	}
	*m = sorted[due:] // a sorted slice is a heap
	return nil
}

func compare(a, b item) int {
	if c := a.line.Time.Compare(b.line.Time); c != 0 {
		return c
	}
	return a.source - b.source
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m merging) Len() int           { return len(m) }
func (m merging) Less(i, j int) bool { return compare(m[i], m[j]) < 0 }
func (m merging) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface.
func (m *merging) Push(x any) {
	it, _ := x.(item)
	*m = append(*m, it)
}

// Pop implements heap.Interface.
func (m *merging) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
