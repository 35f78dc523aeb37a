package show

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// WriteTimeline draws a run as bars over time for a terminal that is width columns wide (at least 40): '█' on the critical path, '▒' off it, '░' for
// a failed or stopped step, '!' where an attempt failed and was repeated.
func WriteTimeline(w io.Writer, record plan.RunRecord, width int) error {
	r := run{&record}
	width = max(width, 40)
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, ansi.Truncate(r.headline(), width, "…"))
	steps := r.startedSteps()
	label := 0
	for _, s := range steps {
		label = max(label, ansi.StringWidth(words.Line(s.ID)))
	}
	label = min(label, width/3)
	tail := 9 // " ✓ 12.3s"
	room := width - label - tail - 1
	critical := r.criticalPath()
	for _, s := range steps {
		name := ansi.Truncate(words.Line(s.ID), label, "…")
		name += strings.Repeat(" ", label-ansi.StringWidth(name))
		mark, _ := stateLook(s.State)
		fmt.Fprintf(b, "%s %s %s %s\n", name, r.track(s, room, critical[s.ID]), mark, words.Duration(r.took(s)))
		if s.Err != "" {
			for _, l := range words.Lines(s.Err) {
				fmt.Fprintln(b, ansi.Truncate("  "+l, width, "…"))
			}
		}
	}
	if n := len(r.Steps) - len(steps); n > 0 {
		fmt.Fprintln(b, words.Count(n, "step was", "steps were")+" not started")
	}
	fmt.Fprintf(b, "%s 0s%*s\n", strings.Repeat(" ", label), room-2, words.Duration(r.lastMoment().Sub(r.Started)))
	fmt.Fprintln(b, ansi.Truncate("█ critical path  ▒ other  ░ failed or stopped  ! tried again", width, "…"))
	return b.Flush()
}

// track renders the bar of one step in room columns.
func (r run) track(s *plan.StepRecord, room int, critical bool) string {
	total := max(r.lastMoment().Sub(r.Started), time.Millisecond)
	column := func(t time.Time) int {
		return min(max(int(int64(room)*int64(t.Sub(r.Started))/int64(total)), 0), room-1)
	}
	fill := '▒'
	switch {
	case s.State == plan.Failed || s.State == plan.Stopped:
		fill = '░'
	case critical:
		fill = '█'
	}
	cells := []rune(strings.Repeat("·", room))
	from, to := column(s.Started), column(r.endOf(s))
	for i := from; i <= to; i++ {
		cells[i] = fill
	}
	for _, re := range s.Retries {
		cells[column(re.At)] = '!'
	}
	return string(cells)
}
