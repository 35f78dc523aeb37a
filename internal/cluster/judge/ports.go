package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Port is a TCP port that a role needs.
type Port struct {
	Number int
	Of     string // the program that listens there
	Local  bool   // on the loopback address only
}

// takenBy reports whether a listener occupies the port.
func (p Port) takenBy(l machine.Listener) bool {
	return l.Port == p.Number && (!p.Local || slices.Contains([]string{"0.0.0.0", "::", "127.0.0.1"}, l.Address))
}

// listeners refuses a machine on which another program listens on a port that the role needs.
func listeners(m report) error {
	var taken, stop []string
	for _, need := range m.Ports {
		i := slices.IndexFunc(m.facts.Listeners, need.takenBy)
		if i < 0 {
			continue
		}
		l := m.facts.Listeners[i]
		taken = append(taken, fmt.Sprintf("port %d, which %s needs, is in use by %s", need.Number, need.Of, listener(l)))
		if advice := evict(l); !slices.Contains(stop, advice) {
			stop = append(stop, advice)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "%s", strings.Join(taken, "; ")).At(m.Name).
		Do("nothing was changed on it; on %s, %s, or give the program another port; then apply again", m.Name, strings.Join(stop, "; "))
}

// listener names the process behind a port.
func listener(l machine.Listener) string {
	switch {
	case l.PID == 0:
		return "the kernel or a process of another container"
	case l.Unit != "":
		return fmt.Sprintf("%s (process %d of %s)", l.Process, l.PID, l.Unit)
	}
	return fmt.Sprintf("%s (process %d)", l.Process, l.PID)
}

// evict describes how to make a program release its port.
func evict(l machine.Listener) string {
	switch {
	case l.PID == 0:
		return fmt.Sprintf("find out what uses it: ss -ltnp sport = :%d", l.Port)
	case l.Unit != "":
		return "systemctl disable --now " + l.Unit
	case l.PID == 1:
		return "disable the socket unit: systemctl list-sockets names it"
	}
	return fmt.Sprintf("stop process %d", l.PID)
}
