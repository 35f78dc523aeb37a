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

// Status is the agent's state on this machine.
type Status struct {
	Machine       string    `json:"machine,omitempty"`
	Digest        string    `json:"digest,omitempty"` // of the applied configuration; empty: none, or a run was interrupted
	Applied       time.Time `json:"applied,omitzero"` // time of the last change
	Paths         int       `json:"paths"`            // number of managed files, links and directories
	Units         []string  `json:"units,omitempty"`  // managed units, sorted
	Pending       []string  `json:"pending,omitempty"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	machine.Life            // of the machine and of the managed units
}

// Status reads the agent's state, and asks systemd about the managed units.
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

// life returns since when the machine and these units have been running.
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

// began returns from a unit's properties when its process began, or zero without a process. The machine's clock may have been set since, so began
// returns the earlier of the recorded time and the time derived from the monotonic clock.
func began(v map[string]string, now time.Time, uptime time.Duration) time.Time {
	at, err := strconv.ParseInt(v["ExecMainStartTimestampMonotonic"], 10, 64)
	if err != nil || at == 0 || v["ExecMainPID"] == "" || v["ExecMainPID"] == "0" {
		return time.Time{}
	}
	byNow := now.Add(time.Duration(at)*time.Microsecond - uptime)
	// Runners set TZ=UTC. systemd prints whole seconds.
	byThen, err := time.Parse("Mon 2006-01-02 15:04:05 UTC", v["ExecMainStartTimestamp"])
	if err == nil && byThen.Before(byNow) {
		return byThen.UTC()
	}
	return byNow.UTC()
}

// monotonic returns the time of systemd's monotonic clock.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil { // Linux has it
		return 0
	}
	return time.Duration(t.Nano())
}
