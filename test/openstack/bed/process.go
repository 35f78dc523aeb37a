package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// process identifies the leader of a service. A PID can be reused, but not with the same start time in the same boot. The service consists of all
// processes in the leader's session.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
}

// stat is the part of /proc/PID/stat that the bed uses.
type stat struct {
	state   string
	session int
	start   uint64
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // the name in parentheses may contain any character
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	s := stat{state: fields[0]}
	if s.session, err = strconv.Atoi(fields[3]); err != nil {
		return stat{}, err
	}
	s.start, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

func describe(pid int) (process, error) {
	s, err := readStat(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := bootID()
	return process{PID: pid, Start: s.start, Boot: boot}, err
}

// startedAt returns the start time of the process, truncated to seconds.
func startedAt(p process) (time.Time, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			boot, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(boot+int64(p.Start/ticks), 0), err
		}
	}
	return time.Time{}, errors.New("/proc/stat does not tell when this machine was booted")
}

// ticks is the kernel's clock ticks per second, as user space sees them on every supported architecture.
const ticks = 100

// alive reports whether the leader runs. A zombie does not count.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false
	}
	s, err := readStat(p.PID)
	return err == nil && s.start == p.Start && s.state != "Z" && s.state != "X"
}

// members returns the living processes of the session that p leads or led. The kernel does not reuse the session's ID while it has members, and
// no process of an older session is younger than its leader.
func (p process) members() []int {
	boot, err := bootID()
	if p.PID <= 0 || err != nil || boot != p.Boot {
		return nil
	}
	if s, err := readStat(p.PID); err == nil && s.start != p.Start {
		return nil // another process has this PID now
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if err == nil && s.session == p.PID && s.start >= p.Start && s.state != "Z" && s.state != "X" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stop asks the whole session to end, and kills it after patience.
func (p process) stop(ctx context.Context, patience time.Duration) error {
	signal := syscall.SIGTERM
	deadline := time.Now().Add(patience)
	if p.alive() { // the leader first, because it stops its workers in order
		if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return tool.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		pids := p.members()
		if time.Now().After(deadline) {
			signal = syscall.SIGKILL
		}
		if signal == syscall.SIGKILL || !p.alive() {
			for _, pid := range pids {
				if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return false, err
				}
			}
		}
		return len(pids) == 0, nil
	})
}

// waitPace is the interval between two checks of a condition.
const waitPace = 200 * time.Millisecond

func readProcess(file string) (process, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return process{}, nil
	}
	if err != nil {
		return process{}, err
	}
	var p process
	if err := json.Unmarshal(data, &p); err != nil {
		return process{}, fail.Wrap(fail.Internal, err, "read the record of a process").At(file)
	}
	return p, nil
}

func writeProcess(file string, p process) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return write(file, data, 0o600)
}

func (b *Bed) record(name string) string { return filepath.Join(b.run(), name+".json") }
