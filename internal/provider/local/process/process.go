package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ID identifies one process forever: process numbers are reused, but not with the same start time in the same boot.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // the host's boot ID
}

// Self returns the ID of this process.
func Self() (ID, error) {
	start, _, err := Stat(os.Getpid())
	if err != nil {
		return ID{}, err
	}
	boot, err := BootID()
	return ID{PID: os.Getpid(), Start: start, Boot: boot}, err
}

// Alive reports whether the process still runs; a zombie does not.
func (p ID) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	boot, err := BootID()
	if err != nil || boot != p.Boot {
		return false
	}
	start, state, err := Stat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

// Signal sends sig if the process still runs.
func (p ID) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// Stat returns a process's start time, in clock ticks since boot, and its state letter, from /proc/PID/stat.
func Stat(pid int) (start uint64, state string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	// the second field, the name in parentheses, may contain any characters
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

// BootID returns the kernel's random ID of this boot.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
