// Package host collects facts about the machine that the agent runs on: its system, its running services and its listeners. It changes nothing.
//
// It does not know the machine's configuration.
package host

import (
	"bufio"
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Root is the root of the machine's file system: "/" on a real one, a temporary directory in tests.
type Root string

// DpkgStatus is dpkg's database of installed packages (dpkg-query(1)).
const DpkgStatus = "/var/lib/dpkg/status"

// Path prefixes a path of the machine with the root.
func (r Root) Path(p string) string { return filepath.Join(string(r), p) }

// Read returns the trimmed content of a small file, or "" if it can't be read.
func (r Root) Read(p string) string {
	data, _ := os.ReadFile(r.Path(p))
	return strings.TrimSpace(string(data))
}

// holds reports whether a file exists and is not empty.
func (r Root) holds(p string) bool {
	info, err := os.Stat(r.Path(p))
	return err == nil && info.Size() > 0
}

// IsDir reports whether a real path is a directory, not a link to one.
func IsDir(real string) bool {
	info, err := os.Lstat(real)
	return err == nil && info.IsDir()
}

// ModulesDir returns the directory of the running kernel's modules.
func ModulesDir() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "/lib/modules/unknown" // uname(2) fails only for a bad pointer
	}
	return "/lib/modules/" + unix.ByteSliceToString(u.Release[:])
}

// Facts collects facts about the machine. Unknown facts stay empty; only a machine without /proc is an error. It leaves out the facts that matter
// only before the first configuration.
func (r Root) Facts() (machine.Facts, error) {
	mem, err := os.ReadFile(r.Path("/proc/meminfo"))
	if err != nil {
		return machine.Facts{}, fail.Wrap(fail.Refused, err, "look at the machine").Do("/proc must be mounted")
	}
	f := machine.Facts{
		OS:            osName(r.Read("/etc/os-release")),
		Kernel:        strings.TrimPrefix(ModulesDir(), "/lib/modules/"),
		Architecture:  runtime.GOARCH,
		CPUs:          runtime.NumCPU(),
		CgroupVersion: r.cgroupVersion(),
		Systemd:       IsDir(r.Path("/run/systemd/system")),
		Dpkg:          r.holds(DpkgStatus),
		AppArmor:      r.Read("/sys/module/apparmor/parameters/enabled") == "Y" && IsDir(r.Path("/sys/kernel/security/apparmor")),
		SysResource:   hasCapability(r.Read("/proc/self/status"), unix.CAP_SYS_RESOURCE),
		Container:     r.Read("/run/systemd/container") != "",
		GRUB:          r.GRUB(),
		Swap:          strings.Count(r.Read("/proc/swaps"), "\n") > 0,
		MachineID:     r.Read("/etc/machine-id"),
		BootID:        r.Read("/proc/sys/kernel/random/boot_id"),
	}
	f.ResolvConf, f.NoResolver = r.resolvConf()
	if f.Hostname, err = os.Hostname(); err != nil {
		return machine.Facts{}, fail.Wrap(fail.Internal, err, "ask for the host name")
	}
	if v := strings.Fields(field(string(mem), "MemTotal")); len(v) > 0 {
		kib, _ := strconv.ParseInt(v[0], 10, 64) // the kernel writes digits
		f.MemoryBytes = kib << 10
	}
	f.Interface = defaultInterface(r.Read("/proc/net/route"))
	f.Address = firstIPv4(f.Interface)
	f.Links = links()
	return f, nil
}

// GRUB's configuration, and the program that writes it.
const (
	GRUBConfig = "/boot/grub/grub.cfg"
	UpdateGRUB = "/usr/sbin/update-grub"
)

// GRUB reports whether the machine boots by a configuration that update-grub writes. Containers have none.
func (r Root) GRUB() bool {
	for _, p := range []string{GRUBConfig, UpdateGRUB} {
		if info, err := os.Stat(r.Path(p)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return r.Read("/run/systemd/container") == ""
}

// links lists the machine's addresses with their interfaces, or nil if it can't read them.
func links() (out []machine.Attachment) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		addrs, _ := i.Addrs() // an interface that has just disappeared has none
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
				out = append(out, machine.Attachment{Interface: i.Name, Prefix: n.String()})
			}
		}
	}
	return out
}

// fills lists the directories that a cluster fills, parents first.
func fills() []string {
	return []string{"/var/lib", machine.StateDir, machine.ContainerdRoot, "/var/lib/kubelet", "/var/lib/etcd"}
}

// Volumes returns the file systems of the directories that a cluster fills. It omits unknown ones.
func (r Root) Volumes() (out []machine.Volume) {
	seen := map[uint64]bool{}
	for _, dir := range fills() {
		var at unix.Stat_t
		var st unix.Statfs_t
		if unix.Stat(r.Path(dir), &at) != nil || seen[at.Dev] || unix.Statfs(r.Path(dir), &st) != nil {
			continue
		}
		seen[at.Dev] = true
		out = append(out, machine.Volume{Directory: dir, Free: int64(st.Bfree) * st.Bsize})
	}
	return out
}

// DiskFree returns how many bytes root can still write to the file system of dir, or 0 if unknown.
func (r Root) DiskFree(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(r.Path(dir), &st); err != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize
}

// resolvConf finds a resolv.conf whose name servers pods can ask; empty means /etc/resolv.conf. Behind systemd-resolved's stub, or another loopback
// address, cluster DNS would ask itself. none reports that the machine has no resolv.conf.
func (r Root) resolvConf() (path string, none bool) {
	const behind = "/run/systemd/resolve/resolv.conf"
	others, itself := r.nameServers("/etc/resolv.conf")
	switch upstream, _ := r.nameServers(behind); {
	case others && !itself:
		return "", false
	case upstream:
		return behind, false
	}
	return "", !others
}

// nameServers reports whether a resolv.conf names remote name servers, and loopback ones.
func (r Root) nameServers(path string) (others, itself bool) {
	for line := range strings.Lines(r.Read(path)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(f[1])
		switch {
		case err != nil:
		case a.IsLoopback() || a.IsUnspecified():
			itself = true
		default:
			others = true
		}
	}
	return others, itself
}

// field returns the value of "name: value" in s.
func field(s, name string) string {
	for line := range strings.Lines(s) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// osName renders "debian 12" from os-release(5).
func osName(release string) string {
	v := map[string]string{}
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		v[key] = strings.Trim(value, `"'`)
	}
	return strings.TrimSpace(v["ID"] + " " + v["VERSION_ID"])
}

// cgroupVersion returns 2 only if the unified hierarchy is the main one: kubelet and runc use v1 on hybrid hosts.
func (r Root) cgroupVersion() int {
	var st unix.Statfs_t
	if unix.Statfs(r.Path("/sys/fs/cgroup"), &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return 2
	}
	return 1
}

// hasCapability reads the bounding set of /proc/self/status.
func hasCapability(status string, capability uint) bool {
	set, err := strconv.ParseUint(field(status, "CapBnd"), 16, 64)
	return err == nil && set&(1<<capability) != 0
}

// defaultInterface returns the interface of the default route with the lowest metric in /proc/net/route.
func defaultInterface(routes string) string {
	best, name := uint64(1<<63), ""
	for sc := bufio.NewScanner(bytes.NewReader([]byte(routes))); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		if metric, err := strconv.ParseUint(f[6], 10, 64); err == nil && metric < best {
			best, name = metric, f[0]
		}
	}
	return name
}

func firstIPv4(name string) string {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return ""
	}
	addrs, _ := iface.Addrs()
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}
