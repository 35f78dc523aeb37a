package host

import (
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// ticks a second, in which the kernel reports when a process began (USER_HZ).
const ticks = 100

// Programs lists what runs by the last part of its first argument, and when the youngest process of that name began.
func (r Root) Programs(now time.Time) (map[string]time.Time, error) {
	entries, err := os.ReadDir(r.Path("/proc"))
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "look at the machine's processes").Do("/proc must be mounted")
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask since when the machine is up")
	}
	booted, out := now.Add(-time.Duration(up.Nano())), map[string]time.Time{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		argv0, _, _ := strings.Cut(r.Read("/proc/"+e.Name()+"/cmdline"), "\x00")
		at, ok := startOf(r.Read("/proc/"+e.Name()+"/stat"), booted)
		if name := path.Base(argv0); ok && argv0 != "" && at.After(out[name]) {
			out[name] = at
		}
	}
	return out, nil
}

// startOf reads from /proc/PID/stat when a process began; it has gone where there is nothing.
func startOf(stat string, booted time.Time) (time.Time, bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name before may hold anything
	if len(f) < 20 {
		return time.Time{}, false
	}
	at, err := strconv.ParseInt(f[19], 10, 64) // the 22nd of all
	return booted.Add(time.Duration(at) * time.Second / ticks), err == nil
}
