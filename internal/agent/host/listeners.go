package host

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Listeners returns the TCP ports with a listener and the name of the listener, by port.
func (r Root) Listeners() []machine.Listener {
	sockets := map[string]machine.Listener{} // by inode
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for line := range strings.Lines(r.Read(table)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening {
				continue
			}
			if at, ok := socketAddress(f[1]); ok {
				sockets[f[9]] = machine.Listener{Address: at.Addr().Unmap().String(), Port: int(at.Port())}
			}
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	r.nameOwners(sockets)
	out := make([]machine.Listener, 0, len(sockets))
	for _, l := range sockets {
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y machine.Listener) int {
		if x.Port != y.Port {
			return x.Port - y.Port
		}
		return strings.Compare(x.Address, y.Address)
	})
	return out
}

// nameOwners finds the owners of sockets, by inode, among all processes' open files. If several processes share one (a server's workers), the oldest
// counts.
func (r Root) nameOwners(sockets map[string]machine.Listener) {
	entries, _ := os.ReadDir(r.Path("/proc")) // Facts has checked that it exists
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		files, _ := os.ReadDir(r.Path(dir + "/fd")) // the process may have ended meanwhile
		for _, f := range files {
			target, _ := os.Readlink(r.Path(dir + "/fd/" + f.Name()))
			inode := strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")
			l, ok := sockets[inode]
			if !ok || l.PID != 0 {
				continue
			}
			l.PID, l.Process, l.Unit = pid, r.Read(dir+"/comm"), serviceOf(r.Read(dir+"/cgroup"))
			sockets[inode] = l
		}
	}
}

// serviceOf returns the service in a process's /proc/PID/cgroup if the process is a direct member.
func serviceOf(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 || part[1] != "" && part[1] != "name=systemd" {
			continue
		}
		if name := path.Base(part[2]); strings.HasSuffix(name, ".service") {
			return name
		}
	}
	return ""
}

// socketAddress parses "0100007F:1F90" as the kernel prints addresses: hexadecimal words in the machine's byte order.
func socketAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if err != nil || hexErr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(n)), ok
}
