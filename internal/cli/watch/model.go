package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Intervals of the screen: between looks at a cluster, and between lists of clusters.
const (
	lookEvery = 5 * time.Second
	listEvery = 2 * time.Second
	detailFor = time.Minute // bounds gathering details
)

// model is the state of the screen.
type model struct {
	ctx     context.Context
	h       TopHost
	only    string
	within  time.Duration
	globals []string
	color   bool

	all           []*known
	problem       string          // of the last list
	asking        map[string]bool // clusters with a look under way
	width, height int

	at      int    // the selected line
	confirm string // machine whose node will be drained if the user confirms
	told    string // a message below the screen

	detail       []string // lines of the details; nil: none are shown
	detailOf     target
	detailScroll int
}

// target is a selected line: a cluster, or a machine of it.
type target struct{ cluster, machine string }

// Messages of the screen.
type (
	tick   time.Time
	listed struct {
		rows []operate.Row
		err  error
	}
	looked struct {
		cluster string
		status  *report.Status
		used    *operate.UsageList
		err     error
		at      time.Time
	}
	lookAgain string
	described struct {
		of    target
		lines []string
	}
	ran struct{ err error }
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(append(m.lookAll(), m.clock(), m.list())...) }

// clock sends a tick each second, so that the ages on the screen advance.
func (m *model) clock() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tick(t) })
}

func (m *model) list() tea.Cmd {
	return tea.Tick(listEvery, func(time.Time) tea.Msg {
		rows, err := m.h.List(m.ctx)
		return listed{rows, err}
	})
}

// lookAll looks at the clusters without a result yet.
func (m *model) lookAll() (cmds []tea.Cmd) {
	for _, k := range m.all {
		if k.seen.IsZero() && k.problem == "" {
			cmds = append(cmds, m.ask(k.row.Name))
		}
	}
	return cmds
}

// ask looks at a cluster in the background, unless a look is under way: the screen never waits.
func (m *model) ask(cluster string) tea.Cmd {
	if m.asking[cluster] {
		return nil
	}
	m.asking[cluster] = true
	return func() tea.Msg {
		st, used, err := m.h.look(m.ctx, cluster, m.within)
		return looked{cluster, st, used, err, time.Now()}
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // some terminals do not know theirs
			m.width, m.height = msg.Width, msg.Height
		}
	case tick:
		return m, m.clock()
	case listed:
		m.problem = ""
		if msg.err != nil {
			m.problem = msg.err.Error()
			return m, m.list()
		}
		m.all = merge(m.all, msg.rows, m.only)
		return m, tea.Batch(append(m.lookAll(), m.list())...)
	case looked:
		delete(m.asking, msg.cluster)
		for _, k := range m.all {
			if k.row.Name == msg.cluster {
				k.learn(msg.status, msg.used, msg.err, msg.at)
				return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return lookAgain(msg.cluster) })
			}
		}
	case lookAgain:
		for _, k := range m.all {
			if k.row.Name == string(msg) {
				return m, m.ask(string(msg))
			}
		}
	case described:
		if m.detail != nil && msg.of == m.detailOf {
			m.detail = msg.lines
		}
	case ran:
		m.told = ""
		if msg.err != nil {
			m.told = msg.err.Error()
		}
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

// key handles a key.
func (m *model) key(key string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case m.confirm != "":
		return m.answer(key)
	case m.detail != nil:
		return m.detailKey(key)
	}
	m.told = ""
	lines := m.targets()
	on := m.selected(lines)
	switch key {
	case "q":
		return tea.Quit
	case "up", "k":
		m.at = max(0, m.at-1)
	case "down", "j":
		m.at = min(len(lines)-1, m.at+1)
	case "home", "g":
		m.at = 0
	case "end", "G":
		m.at = max(0, len(lines)-1)
	case "enter":
		return m.describe(on)
	case "s":
		return m.onMachine(on, "ssh", on.cluster, on.machine)
	case "l":
		return m.onMachine(on, "ssh", on.cluster, on.machine, "--", "journalctl", "--no-pager", "-n", "100")
	case "d":
		if on.machine == "" {
			m.told = "select a machine to drain its node"
			return nil
		}
		m.confirm = on.machine
	}
	return nil
}

// answer handles the user's answer to the question whether to drain a node.
func (m *model) answer(key string) tea.Cmd {
	on := m.selected(m.targets())
	machine := m.confirm
	m.confirm = ""
	if key != "y" {
		m.told = machine + " is not drained"
		return nil
	}
	if on.machine != machine { // the list has changed meanwhile
		m.told = "the list has changed: select " + machine + " again"
		return nil
	}
	return m.run("node", "drain", on.cluster, machine)
}

// onMachine runs a command about the selected machine.
func (m *model) onMachine(on target, args ...string) tea.Cmd {
	if on.machine == "" {
		m.told = "select a machine"
		return nil
	}
	return m.run(args...)
}

// run runs this program outside of the screen. Global flags come first, because args may contain "--".
func (m *model) run(args ...string) tea.Cmd {
	command := m.h.Command
	if command == nil {
		command = self
	}
	return tea.Exec(&held{Cmd: command(append(append([]string{}, m.globals...), args...)...)}, func(err error) tea.Msg { return ran{err} })
}

func (m *model) detailKey(key string) tea.Cmd {
	switch key {
	case "q", "esc", "enter", "backspace", "left":
		m.detail = nil
	case "up", "k":
		m.detailScroll = max(0, m.detailScroll-1)
	case "down", "j":
		m.detailScroll++
	case "pgup":
		m.detailScroll = max(0, m.detailScroll-m.height/2)
	case "pgdown", "space":
		m.detailScroll += m.height / 2
	}
	m.detailScroll = min(m.detailScroll, max(0, len(m.detail)-1))
	return nil
}

// describe gathers details in the background.
func (m *model) describe(on target) tea.Cmd {
	if on.cluster == "" {
		return nil
	}
	m.detailOf, m.detailScroll, m.detail = on, 0, []string{"asking " + on.cluster + "…"}
	screen := Screen{Width: m.width, Color: m.color}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, detailFor)
		defer cancel()
		d, err := m.h.Describe(ctx, on.cluster, operate.Subject{Name: on.machine})
		if err != nil {
			return described{on, words.Wrap(words.Line(err.Error()), screen.Width)}
		}
		var b strings.Builder
		if err := screen.Describe(&b, d, time.Now()); err != nil {
			return described{on, []string{words.Line(err.Error())}}
		}
		return described{on, strings.Split(b.String(), "\n")}
	}
}

// targets lists the lines that can be selected: clusters, and then machines, as a frame shows them.
func (m *model) targets() (all []target) {
	for _, k := range m.all {
		all = append(all, target{k.row.Name, ""})
	}
	for _, k := range m.all {
		if k.status != nil {
			for _, machine := range k.status.Machines {
				all = append(all, target{k.row.Name, machine.Name})
			}
		}
	}
	return all
}

func (m *model) selected(lines []target) target {
	if len(lines) == 0 {
		return target{}
	}
	m.at = min(m.at, len(lines)-1)
	return lines[m.at]
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.text(time.Now()))
	v.AltScreen = true
	v.WindowTitle = "naupegos top"
	return v
}

// text renders the whole screen.
func (m *model) text(now time.Time) string {
	room := max(1, m.height-1)
	var lines []string
	if m.detail != nil {
		lines = m.detail[min(m.detailScroll, len(m.detail)-1):]
	} else {
		lines = m.frame(now, room)
	}
	if len(lines) > room {
		lines = lines[:room]
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(append(lines, ansi.Truncate(m.footer(), m.width, "…")), "\n")
}

// frame renders the lists, scrolled so that the selected line is visible.
func (m *model) frame(now time.Time, room int) []string {
	var b strings.Builder
	screen := Screen{Width: max(20, m.width-2), Color: m.color}
	f := frameOf(m.all, m.problem, now)
	if err := screen.Frame(&b, f); err != nil {
		return []string{words.Line(err.Error())}
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	on, marked := m.selected(m.targets()), 0
	section := "CLUSTER "
	if on.machine != "" {
		section = "MACHINE"
	}
	within := false
	for i, l := range lines {
		plain := ansi.Strip(l)
		fields := strings.Fields(plain)
		if len(fields) > 0 && (fields[0] == "CLUSTER" || fields[0] == "MACHINE") {
			within = strings.Contains(plain, "MACHINE") == (section == "MACHINE")
		} else if within && marked == 0 && len(fields) > 0 && begins(fields, on) {
			marked = i
			lines[i] = "> " + l
			continue
		}
		lines[i] = "  " + l
	}
	if over := marked - room + 2; over > 0 {
		lines = append(lines[:1], lines[1+over:]...)
	}
	return lines
}

// begins reports whether a line of a table begins with the selected cluster or machine.
func begins(fields []string, on target) bool {
	if on.machine == "" {
		return fields[0] == on.cluster
	}
	return fields[0] == on.machine || len(fields) > 1 && fields[0] == on.cluster && fields[1] == on.machine
}

func (m *model) footer() string {
	switch {
	case m.confirm != "":
		return fmt.Sprintf("Drain %s: its pods move to other nodes. y drains, any other key does not.", m.confirm)
	case m.detail != nil:
		return "up/down scroll  q back"
	case m.told != "":
		return words.Line(m.told)
	}
	return "up/down select  Enter details  s shell  l log  d drain  q quit"
}
