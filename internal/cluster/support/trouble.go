package support

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// Limits for the diagnosis of a machine whose node does not become ready.
const (
	LookTime      = 20 * time.Second // for asking; a step's timeout has it on top
	troubleLines  = 3                // of each unit's journal, in the error
	troubleLength = 320              // characters of each such line
	troubleLog    = 256 << 10        // bytes of a journal's end that are looked at
)

// nodeUnits are the units that a node needs, each before those that it depends on.
var nodeUnits = []string{"kubelet.service", "containerd.service"}

// WaitThenDiagnose runs wait in the remaining time minus LookTime. If wait fails, explain gets its error and the rest of the time to find the
// reason.
func WaitThenDiagnose(ctx context.Context, wait func(context.Context) error, explain func(context.Context, error) error) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		within, cancel = context.WithDeadline(ctx, deadline.Add(-LookTime))
	}
	defer cancel()
	err := wait(within)
	if err == nil || within.Err() == nil || ctx.Err() != nil {
		return err
	}
	return explain(ctx, err)
}

// NoAPIBecause returns the error of an API that did not answer in time. It leaves out running units, whose messages don't explain a missing API.
func NoAPIBecause(cluster string, names []string, waited error, found []Trouble) error {
	var b strings.Builder
	b.WriteString(withoutHint(waited))
	hint := ""
	for i, t := range found {
		t.units = slices.DeleteFunc(t.units, func(u unitTrouble) bool { return u.state == "" })
		text := t.text()
		if text == "" {
			continue
		}
		b.WriteString("\non " + names[i] + strings.ReplaceAll(text, "\n", "\n  "))
		if hint == "" && len(t.units) > 0 {
			hint = remedy(names[i], cluster, text, t)
		}
	}
	if hint == "" {
		hint = "naupegos logs " + cluster + " shows what the control-plane machines logged"
	}
	return fail.New(fail.NotReady, "%s", b.String()).Do("%s", hint).Enough()
}

// Trouble holds a machine's reports about its units.
type Trouble struct {
	units  []unitTrouble // units that failed or logged errors
	Unseen error         // why not everything could be asked
}

// unitTrouble is one unit's state and last complaints.
type unitTrouble struct {
	name       string
	state      string   // empty if it is active
	masked     bool     //
	complaints []string // the newest last; redacted
}

// LookForTrouble reads the states of a machine's units, and their complaints since the given time ago.
func LookForTrouble(ctx context.Context, source Source, h remote.Host, r *Redactor, since time.Duration) Trouble {
	ctx, cancel := context.WithTimeout(ctx, LookTime*3/4)
	defer cancel()
	var t Trouble
	ask := func(argv ...string) string {
		out := &tailBuffer{limit: troubleLog}
		if err := source.Stream(ctx, h, nil, out, argv...); err != nil {
			t.Unseen = errors.Join(t.Unseen, err)
		}
		return string(out.bytes())
	}
	states := unitStates(ask(append([]string{"systemctl", "show", "--no-pager", "--property=Id,LoadState,ActiveState,SubState,Result,NRestarts"}, nodeUnits...)...))
	back := fmt.Sprintf("--since=-%ds", int((since + time.Minute).Seconds()))
	for _, name := range nodeUnits {
		u := unitTrouble{name: name, state: states[name].words(), masked: states[name]["LoadState"] == "masked"}
		text := ask("journalctl", "--no-pager", "--output=cat", "--unit="+name, back)
		u.complaints = complaints(string(r.Redact([]byte(text))), u.state != "")
		if u.state != "" || len(u.complaints) > 0 {
			t.units = append(t.units, u)
		}
	}
	return t
}

// properties are one unit's, as systemctl show prints them.
type properties map[string]string

// unitStates parses the output of systemctl show for several units, by name.
func unitStates(out string) map[string]properties {
	all := map[string]properties{}
	for _, block := range strings.Split(out, "\n\n") {
		p := properties{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			p[key] = value
		}
		all[p["Id"]] = p
	}
	return all
}

// words describes a unit's state; empty if it is active without restarts, or if the state is unknown. A unit that restarts repeatedly is active
// at times.
func (p properties) words() string {
	switch {
	case p["ActiveState"] == "active" && p["NRestarts"] != "" && p["NRestarts"] != "0":
		return "active (" + p["SubState"] + "), after systemd has restarted it " + p["NRestarts"] + " times"
	case p["ActiveState"] == "active" && p["SubState"] == "running", p["ActiveState"] == "":
		return ""
	case p["LoadState"] != "loaded":
		return p["LoadState"] + " and " + p["ActiveState"]
	case p["Result"] != "success" && p["Result"] != "":
		return p["ActiveState"] + " (" + p["SubState"] + ", " + p["Result"] + ")"
	}
	return p["ActiveState"] + " (" + p["SubState"] + ")"
}

var (
	klogHead   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[IWEF]\d{4} [\d:.]+ +\d+ [^ \]]+\] `) })
	logfmtHead = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^time="?\S+"? `) })
	complains  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[EF]\d{4} |^(?:E|e)rror: |level=(?:error|fatal)|^panic: `)
	})
	systemds = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\S+\.(?:service|socket): |^(?:Starting|Started|Stopping|Stopped|Failed to start|This usually indicates) `)
	}) // of any failure the same
)

// complaints returns the last few different error lines of a journal. For an unwell unit it includes the last lines whatever they contain or, if
// the unit logged nothing, systemd's lines about it.
func complaints(journal string, unwell bool) []string {
	var found, systemd []string
	last := ""
	for line := range strings.Lines(journal) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		bare := shorten(logfmtHead().ReplaceAllString(klogHead().ReplaceAllString(line, ""), ""), troubleLength)
		if systemds().MatchString(line) {
			systemd = once(systemd, bare)
			continue
		}
		last = bare
		if complains().MatchString(line) {
			found = once(found, bare)
		}
	}
	if unwell && last != "" {
		found = once(found, last)
	}
	if unwell && last == "" {
		found = systemd
	}
	return found[max(0, len(found)-troubleLines):]
}

// once appends a line and removes its earlier occurrence.
func once(lines []string, line string) []string {
	return append(slices.DeleteFunc(lines, func(l string) bool { return l == line }), line)
}

// shorten cuts a text after n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// text lists the units, one per line with its complaints below; empty if there are none.
func (t Trouble) text() string {
	var b strings.Builder
	for _, u := range t.units {
		b.WriteString("\n" + u.name)
		if u.state != "" {
			b.WriteString(" is " + u.state)
		}
		if len(u.complaints) > 0 {
			log := "'s log says:\n    "
			if u.state != "" {
				log = "; its log says:\n    "
			}
			b.WriteString(log + strings.Join(u.complaints, "\n    "))
		}
	}
	if t.Unseen != nil {
		b.WriteString("\nmore could not be read from the machine: " + t.Unseen.Error())
	}
	return b.String()
}

// NotReadyBecause returns the error of a node that did not become ready: the awaited condition, the machine's reports, and the remedy.
func NotReadyBecause(machine, cluster string, waited error, t Trouble) error {
	text := withoutHint(waited) + cmp.Or(t.text(), "\nkubelet and containerd run there and log no errors")
	return fail.New(fail.NotReady, "%s", text).At(machine).Do("%s", remedy(machine, cluster, text, t)).Enough()
}

// withoutHint renders an error without the advice that it carries: a better one follows.
func withoutHint(err error) string {
	var e *fail.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	bare := *e
	bare.Hint, bare.Where = "", ""
	return bare.Error()
}

// remedies for well-known causes, by a text in the error.
var remedies = []struct{ sign, advice string }{
	{"swap on is not supported", "turn off swap on the machine"},
	{"cni plugin not initialized", "the network plugin's pod has not set up this node: look at its log"},
	{"no space left on device", "make room on the machine's disk"},
	{"certificate has expired or is not yet valid", "set the machine's clock"},
}

// remedy returns the remedy for an error.
func remedy(machine, cluster, text string, t Trouble) string {
	for _, u := range t.units {
		if u.masked {
			return fmt.Sprintf("unmask it: naupegos ssh %s %s -- systemctl unmask %s; then apply again", cluster, machine, u.name)
		}
	}
	for _, r := range remedies {
		if strings.Contains(text, r.sign) {
			return r.advice + ", then apply again"
		}
	}
	return fmt.Sprintf("log in with naupegos ssh %s %s, fix the cause and apply again; or replace the machine: naupegos node replace %s %s", cluster, machine, cluster, machine)
}
