// Package host looks at the machine that the agent runs on: what it is, what runs there, and who listens. It changes nothing.
//
// It knows nothing of what the machine should be.
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

// Root is where the machine's file system begins: "/" on a real one, a temporary directory in tests.
type Root string

// DpkgStatus is dpkg's database of what is installed (dpkg-query(1)).
const DpkgStatus = "/var/lib/dpkg/status"

// Path puts the root before a path of the machine.
func (r Root) Path(p string) string { return filepath.Join(string(r), p) }

// Read returns a small file trimmed, empty where it can't be read.
func (r Root) Read(p string) string {
	data, _ := os.ReadFile(r.Path(p))
	return strings.TrimSpace(string(data))
}

// holds reports whether a file is there and not empty.
func (r Root) holds(p string) bool {
	info, err := os.Stat(r.Path(p))
	return err == nil && info.Size() > 0
}

// IsDir reports whether a directory lies at a real path. A link to one does not count.
func IsDir(real string) bool {
	info, err := os.Lstat(real)
	return err == nil && info.IsDir()
}

// ModulesDir is where the running kernel's modules lie.
func ModulesDir() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "/lib/modules/unknown" // uname(2) fails only for a bad pointer
	}
	return "/lib/modules/" + unix.ByteSliceToString(u.Release[:])
}

// Facts looks at the machine. What can't be found out stays empty; only a machine without /proc is an error. What matters only before
// anything was configured there is not in it.
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

// Where GRUB's configuration lies, and the program that writes it.
const (
	GRUBConfig = "/boot/grub/grub.cfg"
	UpdateGRUB = "/usr/sbin/update-grub"
)

// GRUB reports whether the machine boots by a configuration that update-grub writes. Containers boot by none.
func (r Root) GRUB() bool {
	for _, p := range []string{GRUBConfig, UpdateGRUB} {
		if info, err := os.Stat(r.Path(p)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return r.Read("/run/systemd/container") == ""
}

// links lists the machine's addresses with their interfaces; nil if it can't read them.
func links() (out []machine.Attachment) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		addrs, _ := i.Addrs() // an interface that has just gone has none
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
				out = append(out, machine.Attachment{Interface: i.Name, Prefix: n.String()})
			}
		}
	}
	return out
}

// fills lists the directories that a cluster fills, the one above first.
func fills() []string {
	return []string{"/var/lib", machine.StateDir, machine.ContainerdRoot, "/var/lib/kubelet", "/var/lib/etcd"}
}

// Volumes returns the file systems of the directories that a cluster fills. What can't be found out is left out.
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

// DiskFree returns how many bytes root can still write to the file system of dir; 0 where that can't be found out.
func (r Root) DiskFree(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(r.Path(dir), &st); err != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize
}

// resolvConf finds the resolv.conf with name servers that pods can ask, empty for /etc/resolv.conf: behind systemd-resolved's stub, or anything
// else at a loopback address, cluster DNS would ask itself. none reports that there is no such file.
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

// nameServers reports whether a resolv.conf names name servers elsewhere, and at the machine's loopback addresses.
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

// cgroupVersion is 2 only where the unified hierarchy is the main one: kubelet and runc use v1 on hybrid hosts.
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

// defaultInterface finds the default route with the least metric in /proc/net/route.
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
