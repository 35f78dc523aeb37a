package local

import (
	"fmt"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// names derives the names and paths of everything that one cluster has on this host.
type names struct {
	root    string // Options.Root
	cluster string // Options.ClusterID
	short   string // shortID(cluster)
}

func (n names) dir() string                { return filepath.Join(n.root, n.cluster) }
func (n names) machines() string           { return filepath.Join(n.dir(), "machines") }
func (n names) machine(name string) string { return filepath.Join(n.machines(), name) }
func (n names) network() string            { return filepath.Join(n.dir(), "network.json") }
func (n names) owner() string              { return n.dir()[max(0, len(n.dir())-250):] } // the bridge's alias: at most the last 250 bytes of dir
func (n names) linkPrefix() string         { return "nau" + n.short }
func (n names) bridge() string             { return n.linkPrefix() }
func (n names) link(host uint32) string    { return fmt.Sprintf("%s%04x", n.linkPrefix(), host) } // 15 characters, the kernel's limit
func (n names) table() string              { return "naupegos_" + n.short }
func (n names) cgroups() string            { return filepath.Join(process.CgroupParent, n.cluster) }
func (n names) cgroup(name string) string  { return filepath.Join(n.cgroups(), name) }
func (n names) unit(name string) string    { return "naupegos-" + n.cluster + "-" + name + ".service" }
func (n names) unitPattern() string        { return "naupegos-" + n.cluster + "-*.service" }

// nspawn is the machine's name as systemd-nspawn knows it: a host name, at most 64 bytes, unique on this host.
func (n names) nspawn(name string) string {
	s := "nau-" + n.short + "-" + name
	if len(s) > 64 {
		s = s[:55] + "-" + files.Digest(name)[:8]
	}
	return s
}

// machineCgroups lists the cgroups that can hold a machine's processes, in every hierarchy: our own group, and that of the transient
// unit on hosts with systemd. The directories need not exist.
func (n names) machineCgroups(name string) ([]string, error) {
	return process.InHierarchies(n.cgroup(name), filepath.Join(process.Slice, n.unit(name)))
}
