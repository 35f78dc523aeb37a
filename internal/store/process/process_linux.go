package process

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processFacts returns the boot ID, the PID namespace and the start time of a process; unknown values are empty.
func processFacts(pid int) (boot, pidns, start string) {
	if raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		boot = strings.TrimSpace(string(raw))
	}
	pidns, _ = os.Readlink("/proc/self/ns/pid")
	_, start, _ = processStat(pid)
	return boot, pidns, start
}

// processLives reports whether the process pid with this start time is alive here. A zombie is not.
func processLives(pid int, start string) Life {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return Dead
	}
	state, began, err := processStat(pid)
	switch {
	case errors.Is(err, unix.ESRCH):
		return Dead
	case err != nil: // it exists but is hidden
		return Unknown
	case began != start || state == "Z" || state == "X":
		return Dead
	}
	return Alive
}

// processStat reads state and start time (clock ticks since boot) from /proc.
func processStat(pid int) (state, start string, err error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", err
	}
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name before may contain anything
	if len(fields) < 20 {
		return "", "", errors.New("short stat")
	}
	return fields[0], fields[19], nil
}
