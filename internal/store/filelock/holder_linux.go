package filelock

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// unnamed stands for a process that the kernel does not show.
const unnamed = "another process"

// holder names the process that holds the lock of a file: its program and its number. Arguments are left out, because they may be secret.
func holder(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return unnamed
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return unnamed
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return unnamed
	}
	defer locks.Close()
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:01:123456 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || !strings.HasSuffix(fields[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && pid > 0 && opened(pid, info) {
			return program(pid)
		}
	}
	return unnamed
}

// opened reports whether a process has a file open, as far as this user may see: another file of another disk can have the same number.
func opened(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, fd := range fds {
		if info, err := os.Stat(dir + "/" + fd.Name()); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// program returns "NAME (process PID)".
func program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("%s (process %d)", words.Line(strings.TrimSpace(string(name))), pid)
}
