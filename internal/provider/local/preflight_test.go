package local

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

func goodHost() host {
	return host{
		os: "linux", arch: "amd64", tool: func(string) bool { return true }, filesystems: "nodev\toverlay\n", meminfo: "MemAvailable: 8000000 kB\n",
		machineID: strings.Repeat("0a", 16) + "\n",
		free:      func(string) (int64, error) { return 100000 * mib, nil },
		hierarchies: func() ([]process.Hierarchy, error) {
			return []process.Hierarchy{{Mount: "/sys/fs/cgroup", Unified: true}}, nil
		},
		controllers: func([]process.Hierarchy) (map[string]bool, error) {
			return map[string]bool{"cpu": true, "memory": true, "pids": true, "cpuset": true}, nil
		},
	}
}

func TestPreflightMessages(t *testing.T) {
	needs := hostNeeds{image: true, base: true, roots: []string{"/var/lib/naupegos"}, machines: []provider.Role{
		provider.ControlPlane, provider.ControlPlane, provider.ControlPlane, provider.Worker, provider.Gateway,
	}}
	without := func(missing ...string) func(string) bool {
		return func(name string) bool { return !slices.Contains(missing, name) }
	}
	for _, c := range []struct {
		name   string
		change func(*host)
		want   []string
	}{
		{"good", func(*host) {}, nil},
		{"not root", func(h *host) { h.uid = 1000 }, []string{"need root: run the same command with sudo -E"}},
		{"another system", func(h *host) { h.os, h.arch = "darwin", "arm64" }, []string{"need Linux on amd64 or arm64, this is darwin on arm64"}},
		{"no tools", func(h *host) { h.tool = without("systemd-nspawn", "mmdebstrap", "nft") }, []string{
			"apt-get install systemd-container", "apt-get install nftables", "apt-get install mmdebstrap",
		}},
		{"no overlay", func(h *host) { h.filesystems, h.tool = "\text4\n", without("modprobe") }, []string{"no overlay file system"}},
		{"no machine ID", func(h *host) { h.machineID = "" }, []string{"run systemd-machine-id-setup"}},
		{"a machine ID still to come", func(h *host) { h.machineID = "uninitialized\n" }, []string{"run systemd-machine-id-setup"}},
		{"no memory controller", func(h *host) {
			h.controllers = func([]process.Hierarchy) (map[string]bool, error) {
				return map[string]bool{"cpu": true, "pids": true, "cpuset": true}, nil
			}
		}, []string{"controller memory is not available"}},
		{"little memory", func(h *host) { h.meminfo = "MemAvailable: 1024000 kB\n" }, []string{"5 more machines need about 2130 MiB of memory, 1000 MiB are available"}},
		{"little disk", func(h *host) { h.free = func(string) (int64, error) { return 2000 * mib, nil } }, []string{"/var/lib/naupegos needs about 5500 MiB of disk, 2000 MiB are free"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := goodHost()
			c.change(&h)
			got := h.check(needs)
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("%q lacks %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestPreflightAsksLessWhereLessIsToDo(t *testing.T) {
	h := goodHost()
	h.tool = func(name string) bool { return name != "mmdebstrap" }
	h.free = func(string) (int64, error) { return 0, nil }
	if got := h.check(hostNeeds{roots: []string{"/"}}); len(got) > 0 {
		t.Errorf("nothing is to be made, but: %q", got)
	}
}
