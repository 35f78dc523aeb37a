package host

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// ticks is the number of clock ticks per second in the kernel's start times (USER_HZ).
const ticks = 100

// Programs lists the running programs by the last part of their first argument, each with the start of the youngest process of that name.
func (r Root) Programs(now time.Time) (map[string]time.Time, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask since when the machine is up")
	}
	booted, out := now.Add(-time.Duration(up.Nano())), map[string]time.Time{}
	return out, r.eachProcess(func(id int, program string) {
		if at, ok := startOf(r.Read(fmt.Sprintf("/proc/%d/stat", id)), booted); ok && at.After(out[program]) {
			out[program] = at
		}
	})
}

// Processes lists the IDs of the processes of a program.
func (r Root) Processes(program string) ([]int, error) {
	var out []int
	err := r.eachProcess(func(id int, name string) {
		if name == program {
			out = append(out, id)
		}
	})
	return out, err
}

// eachProcess calls do with each process that has arguments, and with the last part of its first argument.
func (r Root) eachProcess(do func(id int, program string)) error {
	entries, err := os.ReadDir(r.Path("/proc"))
	if err != nil {
		return fail.Wrap(fail.Refused, err, "look at the machine's processes").Do("/proc must be mounted")
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if argv0, _, _ := strings.Cut(r.Read("/proc/"+e.Name()+"/cmdline"), "\x00"); argv0 != "" {
			do(id, path.Base(argv0))
		}
	}
	return nil
}

// startOf parses the start time of a process from /proc/PID/stat. An empty file means that the process has ended.
func startOf(stat string, booted time.Time) (time.Time, bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name before it may contain anything
	if len(f) < 20 {
		return time.Time{}, false
	}
	at, err := strconv.ParseInt(f[19], 10, 64) // the 22nd field
	return booted.Add(time.Duration(at) * time.Second / ticks), err == nil
}
