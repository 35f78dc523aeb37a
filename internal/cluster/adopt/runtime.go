package adopt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/adopt/containerd"
	"github.com/naupegos/naupegos/internal/machine"
)

// Where containerd has its data and its socket on machines of ours.
const (
	containerdState  = "/run/containerd"
	containerdSocket = "/run/containerd/containerd.sock"
)

// containerdFile is the configuration that the running containerd was started with.
func (h Host) containerdFile() string {
	if file := h.containerdArgs()["config"]; path.IsAbs(file) {
		return path.Clean(file)
	}
	return containerd.DefaultFile
}

// containerdArgs returns the flags of the running containerd by their long names.
func (h Host) containerdArgs() map[string]string {
	words := slices.Clone(h.running("containerd"))
	for i, word := range words {
		for short, long := range map[string]string{"-c": "--config", "-a": "--address", "-l": "--log-level"} {
			if word == short || strings.HasPrefix(word, short+"=") {
				words[i] = long + strings.TrimPrefix(word, short)
			}
		}
	}
	return argsOf(words)
}

// runtimes compares the hosts' containerd with that of a bundle, whose configuration replaces theirs.
func (d *drafting) runtimes() {
	for i, n := range d.f.Survey.Nodes {
		if h := d.f.Hosts[i]; n.OS == "linux" && strings.HasPrefix(n.Runtime, "containerd://") {
			d.containerd(h)
		}
	}
}

func (d *drafting) containerd(h Host) {
	file, flags := h.containerdFile(), h.containerdArgs()
	c, err := containerd.Read(file, h.Files)
	if err != nil {
		d.block(h.Name, "correct it", "containerd's configuration can't be read: %v", err)
		return
	}
	for name, setting := range map[string]*string{"root": &c.Root, "state": &c.State, "address": &c.Address} {
		if flags[name] != "" {
			*setting = flags[name]
		}
	}
	if root := path.Clean(c.Root); c.Root != "" && root != machine.ContainerdRoot && root != h.Facts["containerdRoot"] {
		d.block(h.Name, fmt.Sprintf("drain the node, stop kubelet and containerd, move %s to %s (or mount it there), take root out of %s, and start both again", root, machine.ContainerdRoot, file),
			"containerd's data is in %s: an apply would start everything a second time from %s", root, machine.ContainerdRoot)
	}
	if state := real(c.State); c.State != "" && state != containerdState {
		d.block(h.Name, fmt.Sprintf("drain the node, take state out of %s, and restart the host", file), "containerd's state lies in %s: an apply would lose sight of the running containers", state)
	}
	if socket := h.criSocket(c); socket != containerdSocket {
		d.block(h.Name, fmt.Sprintf("drain the node, and make its containerd listen on %s (grpc.address), and the kubelet use that (containerRuntimeEndpoint)", containerdSocket),
			"the kubelet uses the containerd at %s", socket)
	}
	if len(c.Lost) > 0 {
		d.gaps = append(d.gaps, Gap{Kind: Lost, Where: h.Name, What: "containerd's configuration: settings that no document can hold", Details: c.Lost,
			Restarts: "containerd on each machine", Do: insteadOf(c.Lost)})
	}
}

// real resolves Debian's link for the state of services.
func real(file string) string {
	if rest, ok := strings.CutPrefix(path.Clean(file), "/var/run/"); ok {
		return "/run/" + rest
	}
	return path.Clean(file)
}

// criSocket returns the socket at which the kubelet reaches containerd.
func (h Host) criSocket(c *containerd.Config) string {
	endpoint := h.kubeletArgs()["container-runtime-endpoint"]
	if endpoint == "" {
		settings, err := h.kubeletSettings()
		if err != nil {
			return containerdSocket // the comparison of kubelets names it
		}
		endpoint = settings["containerRuntimeEndpoint"]
	}
	if endpoint = strings.TrimPrefix(endpoint, "unix://"); endpoint == "" {
		endpoint = c.Address
	}
	if endpoint == "" {
		return containerdSocket
	}
	return real(endpoint)
}

// insteadOf describes how an owner can keep settings that are lost with containerd's configuration.
func insteadOf(lost []string) string {
	var do []string
	for _, r := range [][2]string{
		{"the credentials of", "give pods imagePullSecrets in place of containerd's credentials"},
		{"cri.registry.mirrors", "write mirrors as /etc/containerd/certs.d/HOST/hosts.toml, which stays"},
		{"cri.registry.configs", "write TLS settings of registries as /etc/containerd/certs.d/HOST/hosts.toml, which stays"},
		{"cri.registry.config_path", "copy the registries' directories to /etc/containerd/certs.d, which stays"},
		{"the runtime ", "pods of such a runtime fail after the first apply: move them elsewhere, or do not apply"},
		{"default_runtime_name", "pods that count on the default runtime need another host"},
		{"containerd.snapshotter", "images are fetched and unpacked again"},
	} {
		if slices.ContainsFunc(lost, func(l string) bool { return strings.Contains(l, r[0]) }) {
			do = append(do, r[1])
		}
	}
	if len(do) == 0 {
		return "where something needs them, do not apply"
	}
	return strings.Join(do, "; ")
}
