package show

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

const frameEvery = 100 * time.Millisecond

// tty shows running steps as a live tree at the bottom of the terminal; lines about finished steps scroll up above it. Each frame is one write,
// overwrites the last one line by line, and never wraps, which avoids flicker.
type tty struct {
	w     io.Writer
	color bool
	size  func() (width, height int)
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	began   time.Time
	total   int
	over    int
	failed  int
	spin    int
	running []*live  // in the order of start
	above   []string // lines to scroll up with the next frame
	drawn   int      // number of lines of the last frame, which the next one overwrites
	quit    chan struct{}
	gone    chan struct{}
}

// live is one running step.
type live struct {
	step    *plan.Step
	started time.Time
	status  string
	retry   string // error of the last attempt
}

func newTTY(w io.Writer) *tty {
	return &tty{w: w, color: WantColor(w), size: func() (int, int) { return terminalSize(w) }, now: time.Now}
}

func terminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

func (o *tty) Begin(p *plan.Plan, at time.Time) {
	o.began, o.total = at, len(p.Steps)
	o.quit, o.gone = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(o.gone)
		t := time.NewTicker(frameEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				o.mu.Lock()
				o.spin++
				o.draw(true)
				o.mu.Unlock()
			case <-o.quit:
				return
			}
		}
	}()
}

func (o *tty) Event(e plan.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.running, func(l *live) bool { return l.step == e.Step })
	switch {
	case e.State.Final():
		if i >= 0 {
			o.running = slices.Delete(o.running, i, i+1)
		}
		o.finished(e)
	case i < 0:
		o.running = append(o.running, &live{step: e.Step, started: e.Started, status: words.Line(e.Status)})
	case e.State == plan.Retrying:
		o.running[i].retry = words.Line(e.Err.Error())
	default:
		o.running[i].status = words.Line(e.Status)
	}
}

func (o *tty) finished(e plan.Event) {
	o.over++
	if e.State == plan.Failed {
		o.failed++
	}
	mark, color := stateLook(e.State)
	text := fmt.Sprintf("%s %s", paint(o.color, color, mark), stepName(e.Step))
	text += paint(o.color, faint, "  "+words.Duration(e.At.Sub(e.Started)))
	o.above = append(o.above, text)
	if e.Err != nil {
		for _, l := range words.Lines(e.Err.Error()) {
			o.above = append(o.above, "    "+paint(o.color, color, l))
		}
	}
}

func (o *tty) Note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.above = append(o.above, paint(o.color, yellow, "! "+words.Line(text)))
	o.draw(true)
}

func (o *tty) End(r *plan.Result) {
	close(o.quit)
	<-o.gone
	o.mu.Lock()
	defer o.mu.Unlock()
	o.above = append(o.above, paint(o.color, bold, endLine(r)))
	o.draw(false)
}

// draw overwrites the last frame; o.mu is held. It ignores errors of the terminal: the run continues.
func (o *tty) draw(withTree bool) {
	width, height := o.size()
	var tree []string
	if withTree {
		tree = o.tree(width, height)
	}
	var b strings.Builder
	b.WriteString("\x1b[?2026h") // supporting terminals show the frame at once
	if o.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", o.drawn)
	}
	b.WriteString("\r")
	for _, l := range append(o.above, tree...) {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?2026l")
	o.above, o.drawn = nil, len(tree)
	_, _ = io.WriteString(o.w, b.String())
}

// stepName describes a step in one phrase: its title, preceded by its subject unless the title names it.
func stepName(s *plan.Step) string {
	if s.Subject == "" || strings.Contains(s.Title, s.Subject) {
		return words.Line(s.Title)
	}
	return words.Line(s.Subject + ": " + s.Title)
}
