package bed

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// checkFree fails if a process listens on the address already, and names the process.
func checkFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fail.Wrap(fail.Refused, err, "listen on %s", address)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return fail.New(fail.Refused, "port %s is taken by %s", address, listener(n)).Do("stop that, or run the test bed on another machine")
}

// listener returns the name of the process that listens on a TCP port.
func listener(port int) string {
	inodes := sockets(port, "0A", 1)
	entries, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "an unknown process"
	}
	for _, fd := range entries {
		target, err := os.Readlink(fd)
		if err != nil || !inodes[target] {
			continue
		}
		pid := strings.Split(fd, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			continue
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return "an unknown process"
}

// connectedTo reports whether a process has an established connection to a port of this machine.
func connectedTo(pid, port int) bool {
	inodes := sockets(port, "01", 2)
	entries, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, fd := range entries {
		if target, err := os.Readlink(fd); err == nil && inodes[target] {
			return true
		}
	}
	return false
}

// sockets returns the sockets ("socket:[inode]") in a state whose address in the given column (1 local, 2 remote) has the port.
func sockets(port int, state string, column int) map[string]bool {
	found := map[string]bool{}
	suffix := ":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue // the kernel has no IPv6
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == state && strings.HasSuffix(f[column], suffix) {
				found["socket:["+f[9]+"]"] = true
			}
		}
	}
	return found
}
