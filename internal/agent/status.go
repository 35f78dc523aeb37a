package agent

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// Status is what the agent knows of its work on this machine.
type Status struct {
	Machine       string    `json:"machine,omitempty"`
	Digest        string    `json:"digest,omitempty"` // of the configuration in place; empty: none, or a run was cut short
	Applied       time.Time `json:"applied,omitzero"` // when it was last changed
	Paths         int       `json:"paths"`            // files, links and directories managed
	Units         []string  `json:"units,omitempty"`  // units managed, sorted
	Pending       []string  `json:"pending,omitempty"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	machine.Life            // of the machine and of the units managed
}

// Status reads the agent's state, and asks systemd about the units in it.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	st, err := a.loadState()
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Machine: st.Machine, Digest: st.Digest, Applied: st.Applied, Paths: len(st.Paths), Pending: st.Pending,
		Units: slices.Sorted(maps.Keys(st.Units)),
	}
	states, err := a.unitStates(ctx, s.Units)
	if err != nil {
		return Status{}, err
	}
	s.Life = a.life(states)
	up, _, _ := strings.Cut(a.read("/proc/uptime"), ".")
	s.UptimeSeconds, _ = strconv.ParseInt(up, 10, 64) // the kernel writes digits
	return s, nil
}
