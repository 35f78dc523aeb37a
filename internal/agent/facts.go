package agent

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Facts looks at the machine. What can't be found out stays empty; only a machine without /proc is an error.
func (a *Agent) Facts() (machine.Facts, error) {
	mem, err := os.ReadFile(a.path("/proc/meminfo"))
	if err != nil {
		return machine.Facts{}, fail.Wrap(fail.Refused, err, "look at the machine").Do("/proc must be mounted")
	}
	f := machine.Facts{
		OS:            osName(a.read("/etc/os-release")),
		Kernel:        strings.TrimPrefix(modulesDir(), "/lib/modules/"),
		Architecture:  runtime.GOARCH,
		CPUs:          runtime.NumCPU(),
		CgroupVersion: a.cgroupVersion(),
		Systemd:       isDir(a.path("/run/systemd/system")),
		Dpkg:          a.read(dpkgStatus) != "",
		AppArmor:      a.read("/sys/module/apparmor/parameters/enabled") == "Y" && isDir(a.path("/sys/kernel/security/apparmor")),
		SysResource:   hasCapability(a.read("/proc/self/status"), unix.CAP_SYS_RESOURCE),
		Container:     a.read("/run/systemd/container") != "",
		ResolvConf:    a.resolvConf(),
		Swap:          strings.Count(a.read("/proc/swaps"), "\n") > 0,
		MachineID:     a.read("/etc/machine-id"),
		BootID:        a.read("/proc/sys/kernel/random/boot_id"),
	}
	if f.Hostname, err = os.Hostname(); err != nil {
		return machine.Facts{}, fail.Wrap(fail.Internal, err, "ask for the host name")
	}
	if v := strings.Fields(field(string(mem), "MemTotal")); len(v) > 0 {
		kib, _ := strconv.ParseInt(v[0], 10, 64) // the kernel writes digits
		f.MemoryBytes = kib << 10
	}
	f.Interface = defaultInterface(a.read("/proc/net/route"))
	f.Address = firstIPv4(f.Interface)
	st, err := a.loadState()
	if err != nil {
		return machine.Facts{}, err
	}
	if f.Fresh = len(st.Units) == 0; f.Fresh {
		f.Listeners, f.DiskFree, f.Clock = a.listeners(), a.diskFree("/var/lib"), time.Now()
	}
	return f, nil
}

// diskFree returns how many bytes root can still write to the file system of dir; 0 where that can't be found out.
func (a *Agent) diskFree(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(a.path(dir), &st); err != nil {
		return 0
	}
	return int64(st.Bfree) * st.Bsize
}

// resolvConf finds the resolv.conf with real name servers: behind systemd-resolved's stub, cluster DNS would ask itself.
func (a *Agent) resolvConf() string {
	const real = "/run/systemd/resolve/resolv.conf"
	stub := false
	for line := range strings.Lines(a.read("/etc/resolv.conf")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			stub = stub || f[1] == "127.0.0.53" || f[1] == "127.0.0.54"
		}
	}
	if stub && a.read(real) != "" {
		return real
	}
	return ""
}

// read returns a small file trimmed, empty where it can't be read.
func (a *Agent) read(p string) string {
	data, _ := os.ReadFile(a.path(p))
	return strings.TrimSpace(string(data))
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
func (a *Agent) cgroupVersion() int {
	var st unix.Statfs_t
	if unix.Statfs(a.path("/sys/fs/cgroup"), &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
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
