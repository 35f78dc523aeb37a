package agent

import (
	"strconv"
	"strings"
	"time"
)

// Status is what the agent knows of its work on this machine.
type Status struct {
	Machine       string    `json:"machine,omitempty"`
	Digest        string    `json:"digest,omitempty"` // of the configuration in place; empty: none, or a run was cut short
	Applied       time.Time `json:"applied,omitzero"` // when it was last changed
	Paths         int       `json:"paths"`            // files, links and directories managed
	Units         []string  `json:"units,omitempty"`  // units managed, in no order
	Pending       []string  `json:"pending,omitempty"`
	BootID        string    `json:"bootID"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
}

// Status reads the agent's state; it looks at nothing else.
func (a *Agent) Status() (Status, error) {
	st, err := a.loadState()
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Machine: st.Machine, Digest: st.Digest, Applied: st.Applied, Paths: len(st.Paths), Pending: st.Pending,
		BootID: a.read("/proc/sys/kernel/random/boot_id"),
	}
	for name := range st.Units {
		s.Units = append(s.Units, name)
	}
	up, _, _ := strings.Cut(a.read("/proc/uptime"), ".")
	s.UptimeSeconds, _ = strconv.ParseInt(up, 10, 64) // the kernel writes digits
	return s, nil
}
