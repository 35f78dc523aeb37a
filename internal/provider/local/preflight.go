package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// Measured needs of machines: bytes of memory once Kubernetes runs, and of disk in addition to the shared image.
const (
	mib                = int64(1) << 20
	memoryControlPlane = 600 * mib
	memoryWorker       = 250 * mib
	memoryGateway      = 80 * mib
	diskMachine        = 500 * mib
	diskImage          = 3000 * mib
)

// The message for users other than root. sudo -E keeps the user's store and bundles.
const (
	needsRoot = "local machines need root"
	runAsRoot = "run the same command with sudo -E"
)

// host is what Preflight needs to know about this host; tests fake it.
type host struct {
	uid         int
	os, arch    string
	tool        func(name string) bool
	filesystems string // text of /proc/filesystems
	meminfo     string // text of /proc/meminfo
	machineID   string // text of /etc/machine-id
	free        func(path string) (int64, error)
	hierarchies func() ([]process.Hierarchy, error)
	controllers func(hs []process.Hierarchy) (map[string]bool, error)
}

func thisHost() (host, error) {
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return host{}, err
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return host{}, err
	}
	machineID, err := os.ReadFile("/etc/machine-id")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return host{
		uid: os.Geteuid(), os: runtime.GOOS, arch: runtime.GOARCH,
		tool:        func(name string) bool { _, err := exec.LookPath(name); return err == nil },
		filesystems: string(filesystems), meminfo: string(meminfo), machineID: string(machineID), free: freeBytes,
		hierarchies: process.Hierarchies, controllers: process.Controllers,
	}, err
}

// Preflight reports whether this host can run the wanted machines. It names everything that is missing in one fail.Refused.
func (p *Provider) Preflight(_ context.Context, want provider.Wanted) error {
	h, err := thisHost()
	if err != nil {
		return err
	}
	rs, err := records(p.n.machines())
	if err != nil {
		return err
	}
	missing, err := p.layers().Missing()
	if err != nil {
		return err
	}
	_, err = os.Stat(p.debian().Tar())
	needs := hostNeeds{image: len(missing) > 0, base: p.opts.Base == nil && errors.Is(err, os.ErrNotExist), roots: []string{p.n.root, p.opts.ImageRoot}}
	for _, spec := range want.Machines {
		known := false
		for _, r := range rs {
			known = known || r.Name == spec.Name && r.Created
		}
		if !known {
			needs.machines = append(needs.machines, spec.Role)
		}
	}
	needs.base = needs.base && needs.image && slices.ContainsFunc(missing, layers.Layer.IsBase)
	problems := h.check(needs)
	if err := p.checkSubnet(); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		return fail.New(fail.Refused, "this host can't provide the machines: %s", strings.Join(problems, "; ")).At(p.opts.ClusterName)
	}
	return nil
}

// checkSubnet checks that the cluster's subnet is free, or that a free one can be chosen.
func (p *Provider) checkSubnet() error {
	subnet, err := p.planSubnet()
	if err != nil {
		return err
	}
	used, err := p.usedSubnets()
	if err != nil {
		return err
	}
	if u := address.Overlapping(subnet, used); u != nil {
		return fail.New(fail.Refused, "subnet %s overlaps %s, which is in use on this host", subnet, u).
			Do("set another provider cidr in the document")
	}
	return nil
}

// hostNeeds describes what remains to be made.
type hostNeeds struct {
	machines []provider.Role // of machines that don't exist yet
	image    bool            // a layer of the image is missing
	base     bool            // the base image must be made with mmdebstrap
	roots    []string        // the directories for machines and images
}

// check lists the problems of all parts, each with its remedy.
func (h host) check(n hostNeeds) []string {
	var out []string
	for _, p := range h.parts(n) {
		out = append(out, p.problems...)
	}
	return out
}

// part is one aspect of the host that Preflight and CheckHost examine.
type part struct {
	name     string
	problems []string // each with its remedy
	found    string   // describes a part without problems
	smaller  bool     // a smaller cluster may fit
}

func (h host) parts(n hostNeeds) []part {
	return []part{
		{name: "platform", problems: h.checkPlatform(), found: h.os + "/" + h.arch},
		{name: "root", problems: h.checkRoot(), found: "this command runs as root"},
		{name: "programs", problems: h.checkPrograms(n), found: "systemd-nspawn and nft, and if needed tar and mmdebstrap"},
		{name: "kernel", problems: h.checkKernel(), found: "overlay file system"},
		{name: "machine ID", problems: h.checkMachineID(), found: "/etc/machine-id has one"},
		{name: "cgroups", problems: h.checkCgroups(), found: "cpu, memory, pids and cpuset"},
		{name: "memory", problems: h.checkMemory(n), found: fmt.Sprintf("%d MiB are available", memAvailable(h.meminfo)/mib), smaller: true},
		{name: "disk", problems: h.checkDisk(n), found: "enough for the machines", smaller: true},
	}
}

func (h host) checkPlatform() []string {
	if h.os != "linux" || h.arch != "amd64" && h.arch != "arm64" {
		return []string{fmt.Sprintf("local machines need Linux on amd64 or arm64, this is %s on %s", h.os, h.arch)}
	}
	return nil
}

func (h host) checkRoot() []string {
	if h.uid != 0 {
		return []string{needsRoot + ": " + runAsRoot}
	}
	return nil
}

func (h host) checkPrograms(n hostNeeds) (out []string) {
	for _, t := range []struct {
		name, pkg string
		needed    bool
	}{
		{"systemd-nspawn", "systemd-container", true}, {"nft", "nftables", true}, {"tar", "tar", n.image}, {"mmdebstrap", "mmdebstrap", n.base},
	} {
		if t.needed && !h.tool(t.name) {
			out = append(out, fmt.Sprintf("%s is missing: apt-get install %s", t.name, t.pkg))
		}
	}
	return out
}

func (h host) checkKernel() []string {
	if !strings.Contains(h.filesystems, "\toverlay\n") && !h.tool("modprobe") {
		return []string{"the kernel has no overlay file system"}
	}
	return nil
}

// checkMachineID checks that the host has a machine ID: systemd-nspawn derives the links' hardware addresses from it; see machine-id(5).
func (h host) checkMachineID() []string {
	if id := strings.TrimSpace(h.machineID); len(id) != 32 {
		return []string{"/etc/machine-id holds no machine ID: run systemd-machine-id-setup"}
	}
	return nil
}

func (h host) checkCgroups() []string {
	hs, err := h.hierarchies()
	if err != nil {
		return []string{err.Error()}
	}
	have, err := h.controllers(hs)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range []string{"cpu", "memory", "pids", "cpuset"} {
		if !have[c] {
			out = append(out, fmt.Sprintf("the cgroup controller %s is not available: check the kernel's command line (cgroup_enable=%s)", c, c))
		}
	}
	return out
}

func (h host) checkMemory(n hostNeeds) []string {
	var need int64
	for _, role := range n.machines {
		need += map[provider.Role]int64{
			provider.ControlPlane: memoryControlPlane, provider.Worker: memoryWorker, provider.Gateway: memoryGateway,
		}[role]
	}
	have := memAvailable(h.meminfo)
	if have >= need {
		return nil
	}
	return []string{fmt.Sprintf("%d more machines need about %d MiB of memory, %d MiB are available: use fewer machines", len(n.machines), need/mib, have/mib)}
}

func (h host) checkDisk(n hostNeeds) []string {
	need := diskMachine * int64(len(n.machines))
	if n.image {
		need += diskImage
	}
	for _, dir := range n.roots {
		have, err := h.free(dir)
		if err != nil {
			return []string{err.Error()}
		}
		if have < need {
			return []string{fmt.Sprintf("%s needs about %d MiB of disk, %d MiB are free: make room, or set another directory", dir, need/mib, have/mib)}
		}
	}
	return nil
}

// memAvailable returns MemAvailable from the text of /proc/meminfo, in bytes; 0 if it is missing.
func memAvailable(text string) int64 {
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) > 1 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// freeBytes returns the space available on the file system of path or of its nearest existing parent.
func freeBytes(path string) (int64, error) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		if err == nil {
			return int64(st.Bavail) * st.Bsize, nil
		}
		if !errors.Is(err, unix.ENOENT) || path == filepath.Dir(path) {
			return 0, fmt.Errorf("free disk space of %s: %w", path, err)
		}
		path = filepath.Dir(path)
	}
}
