package host

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Addresses returns the machine's IPv4 addresses except loopback's, or nil if it can't read them.
func Addresses() (out []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// Firewall returns the name of the active firewall: "firewalld", "ufw", or a service that loads rules which drop packets by default; or "".
func (r Root) Firewall() string {
	switch {
	case len(r.running([]string{"firewalld.service"})) > 0:
		return "firewalld"
	case r.ufw():
		return "ufw"
	}
	return r.packetFilter()
}

func (r Root) ufw() bool {
	if _, err := os.Stat(r.Path("/usr/sbin/ufw")); err != nil { // a removed package leaves its configuration behind
		return false
	}
	for line := range strings.Lines(r.Read("/etc/ufw/ufw.conf")) {
		if value, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(line)), "enabled="); ok && strings.Trim(value, `"'`) == "yes" {
			return true
		}
	}
	return false
}

// runtimes lists the services of container runtimes and of other Kubernetes distributions, as patterns: snaps have names of their own.
func runtimes() []string {
	return []string{
		"containerd.service", "crio.service", "docker.service", "k0scontroller.service", "k0sworker.service", "k3s.service", "k3s-agent.service",
		"kubelet.service", "rke2-agent.service", "rke2-server.service",
		"snap.*.daemon-kubelite.service", "snap.*.dockerd.service", "snap.*.containerd.service", "snap.*.kubelet.service", "snap.*.k8s-dqlite.service", "snap.*.k8sd.service",
	}
}

// Runtimes returns the running services that run containers or a cluster.
func (r Root) Runtimes() []string { return r.running(runtimes()) }

// Balancers returns the running services whose configuration a gateway replaces.
func (r Root) Balancers() []string {
	return r.running([]string{"haproxy.service", "keepalived.service"})
}

// running returns the services that match the patterns and that systemd runs, by their cgroups.
func (r Root) running(patterns []string) (out []string) {
	for _, slice := range []string{"/sys/fs/cgroup/system.slice/", "/sys/fs/cgroup/systemd/system.slice/"} {
		for _, pattern := range patterns {
			found, _ := filepath.Glob(r.Path(slice + pattern)) // the patterns are valid
			for _, dir := range found {
				if name := filepath.Base(dir); IsDir(dir) && !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// SELinux reports whether SELinux is enforcing.
func (r Root) SELinux() bool { return r.Read("/sys/fs/selinux/enforce") == "1" }
