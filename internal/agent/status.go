package agent

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
	up, _, _ := strings.Cut(a.root.Read("/proc/uptime"), ".")
	s.UptimeSeconds, _ = strconv.ParseInt(up, 10, 64) // the kernel writes digits
	return s, nil
}

// life says since when the machine and these units have been running.
func (a *Agent) life(states map[string]unitState) machine.Life {
	l := machine.Life{BootID: a.root.Read("/proc/sys/kernel/random/boot_id")}
	for name, s := range states {
		if !s.up() {
			if l.Down == nil {
				l.Down = map[string]string{}
			}
			l.Down[name] = s.words()
		}
		if s.began.IsZero() || !s.running() {
			continue
		}
		if l.Since == nil {
			l.Since = map[string]time.Time{}
		}
		l.Since[name] = s.began
	}
	return l
}

// began reads from a unit's properties when its process began, or zero without a process. The machine's clock may have been set since: of the
// time by the clock as it was and the time by the clock as it is now, it is the earlier one.
func began(v map[string]string, now time.Time, uptime time.Duration) time.Time {
	at, err := strconv.ParseInt(v["ExecMainStartTimestampMonotonic"], 10, 64)
	if err != nil || at == 0 || v["ExecMainPID"] == "" || v["ExecMainPID"] == "0" {
		return time.Time{}
	}
	byNow := now.Add(time.Duration(at)*time.Microsecond - uptime)
	// Runners set TZ=UTC. To the second, as it is printed.
	byThen, err := time.Parse("Mon 2006-01-02 15:04:05 UTC", v["ExecMainStartTimestamp"])
	if err == nil && byThen.Before(byNow) {
		return byThen.UTC()
	}
	return byNow.UTC()
}

// monotonic is the clock that systemd calls monotonic.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil { // Linux has it
		return 0
	}
	return time.Duration(t.Nano())
}
