package show

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/plan/words"
)

const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

// tree renders the running steps by subject, and the progress bar; o.mu is held. No line is wider than width-1, and there are at most height-1 lines:
// a tree that is too high becomes a list, which is cut at the end.
func (o *tty) tree(width, height int) []string {
	room := max(height-2, 1) // the bar takes one line, the cursor another
	lines := o.grouped(width)
	if len(lines) > room {
		lines = lines[:0]
		for i, l := range o.running {
			if i == room-1 && len(o.running) > room {
				lines = append(lines, fmt.Sprintf("  … and %d more", len(o.running)-i))
				break
			}
			lines = append(lines, o.stepLine(l, stepName(l.step), width))
		}
	}
	lines = append(lines, o.bar(width))
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, max(width-1, 1), "…")
	}
	return lines
}

func (o *tty) grouped(width int) []string {
	var lines []string
	shown := map[string]bool{}
	for _, first := range o.running {
		subject := first.step.Subject
		if shown[subject] {
			continue
		}
		shown[subject] = true
		lines = append(lines, paint(o.color, bold, words.Line(subject)))
		for _, l := range o.running {
			if l.step.Subject == subject {
				lines = append(lines, o.stepLine(l, words.Line(l.step.Title), width))
			}
		}
	}
	return lines
}

func (o *tty) stepLine(l *live, name string, width int) string {
	frames := []rune(spinner)
	line := "  " + paint(o.color, cyan, string(frames[o.spin%len(frames)])) + " " + name
	line += paint(o.color, faint, "  "+words.Duration(o.now().Sub(l.started)))
	status := l.status
	if l.retry != "" {
		status = strings.TrimPrefix(status+" · "+l.retry, " · ")
	}
	if room := width - 1 - ansi.StringWidth(line) - 2; status != "" && room > 8 {
		line += paint(o.color, faint, "  "+ansi.Truncate(status, room, "…"))
	}
	return line
}

// bar returns "━━━━──── 12/40  14.2s".
func (o *tty) bar(width int) string {
	tail := fmt.Sprintf(" %d/%d  %s", o.over, o.total, words.Duration(o.now().Sub(o.began)))
	if o.failed > 0 {
		tail += paint(o.color, red, fmt.Sprintf("  %d failed", o.failed))
	}
	room := min(max(width-1-ansi.StringWidth(tail), 0), 40)
	full := room * o.over / max(o.total, 1)
	return paint(o.color, green, strings.Repeat("━", full)) + paint(o.color, faint, strings.Repeat("─", room-full)) + tail
}
