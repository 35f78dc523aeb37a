package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process names one process for good: numbers are used again, but not with the same start time in the same boot.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // the host's boot ID
}

func self() (process, error) {
	start, _, err := procStat(os.Getpid())
	if err != nil {
		return process{}, err
	}
	boot, err := bootID()
	return process{PID: os.Getpid(), Start: start, Boot: boot}, err
}

// alive reports whether the process still runs; a zombie does not.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false
	}
	start, state, err := procStat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

// signal sends sig if the process is still the same.
func (p process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

func procStat(pid int) (start uint64, state string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	// the second field, the name in parentheses, may hold anything
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// supervisor returns the process that run.json in dir names; the zero process where there is none. The file is replaced as
// a whole but not synced: one that can't be parsed is from before a crash of the host, as its process is.
func supervisor(dir string) (process, error) {
	data, err := os.ReadFile(runFile(dir))
	if err != nil {
		return process{}, ignoreGone(err)
	}
	var p process
	if err := json.Unmarshal(data, &p); err != nil {
		return process{}, nil //nolint:nilerr // see above
	}
	return p, nil
}

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
