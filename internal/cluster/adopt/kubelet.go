package adopt

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/kube/layout"
)

// kubeletExtra is the packages' file for flags of the kubelet. kubeadm's drop-in and ours both read it.
const kubeletExtra = "/etc/default/kubelet"

// running splits the command line of a process, whose words factsScript separates by tabs; nil if the process does not run.
func (h Host) running(process string) []string {
	line := strings.Trim(h.Facts[process+"Args"], "\t")
	if line == "" {
		return nil
	}
	return strings.Split(line, "\t")
}

// kubeletArgs returns the flags of the running kubelet, wherever its unit takes them from; without one, the flags that kubeadm has written.
func (h Host) kubeletArgs() map[string]string {
	if words := h.running("kubelet"); words != nil {
		return argsOf(words[1:])
	}
	return envFlags(string(h.Files[kubeletFlags]))
}

// kubeletFlags returns the flags of the kubelet that an apply replaces. Flags that kubeadm's drop-in sets stay, and KUBELET_EXTRA_ARGS, too.
func (h Host) kubeletFlags() map[string]string {
	flags, extra := h.kubeletArgs(), h.extraFlags()
	maps.DeleteFunc(flags, func(name, value string) bool {
		return slices.Contains([]string{"kubeconfig", "bootstrap-kubeconfig", "config"}, name) || extra[name] == value && value != ""
	})
	return flags
}

// kubeletConfig returns the path and the content of the kubelet's configuration.
func (h Host) kubeletConfig() (file string, data []byte) {
	file = kubeletConfig
	if named := h.kubeletArgs()["config"]; path.IsAbs(named) {
		file = path.Clean(named)
	}
	return file, h.Files[file]
}

// kubeletSettings returns the settings of the kubelet's configuration with the drop-ins of its --config-dir, which count more.
func (h Host) kubeletSettings() (map[string]string, error) {
	_, data := h.kubeletConfig()
	all, err := flat(data)
	if err != nil {
		return nil, err
	}
	dir := h.kubeletArgs()["config-dir"]
	for _, file := range slices.Sorted(maps.Keys(h.Files)) {
		if dir == "" || path.Dir(file) != path.Clean(dir) || path.Ext(file) != ".conf" {
			continue
		}
		more, err := flat(h.Files[file])
		if err != nil {
			return nil, err
		}
		maps.Copy(all, more)
	}
	return all, nil
}

// harmlessKubeletFlags lists flags that have done their work, or that a document describes in other words.
var harmlessKubeletFlags = []string{"container-runtime-endpoint", "container-runtime", "pod-infra-container-image", "node-ip", "hostname-override", "node-labels", "register-with-taints",
	"v", "config-dir", "runtime-cgroups", "client-ca-file"}

// kubelet compares a host's kubelet.
func (d *drafting) kubelet(p layout.Params, h Host) error {
	config, flags, err := p.KubeletSettings(h.node())
	if err != nil {
		return err
	}
	ours, err := flat(config)
	if err != nil {
		return err
	}
	theirs, err := h.kubeletSettings()
	if err != nil || len(theirs) == 0 {
		file, _ := h.kubeletConfig()
		d.block(h.Name, "correct "+file, "the kubelet's configuration can't be read")
		return nil
	}
	d.moveToPKI(theirs, h)
	withoutUsualSettings("kubelet", theirs, ours)
	const restarts = "kubelet on each machine"
	d.settings(h.Name, "kubelet's configuration", theirs, ours, slices.Concat([]string{"containerRuntimeEndpoint", "resolvConf", "staticPodPath"}, d.told), restarts)
	if last := len(d.gaps) - 1; last >= 0 && d.gaps[last].Where == h.Name && slices.ContainsFunc(d.gaps[last].Details, func(s string) bool { return strings.HasPrefix(s, "clusterDNS=") }) {
		d.gaps[last].Do = "pods that start after the first apply ask the cluster's DNS itself, also where a node-local one runs; where something needs the other settings, do not apply"
	}
	told := envFlags(flags) // these identify the existing node
	theirFlags := h.kubeletFlags()
	for name := range told {
		if _, set := theirFlags[name]; !set {
			delete(told, name)
		}
	}
	d.settings(h.Name, "kubelet's flags", theirFlags, told,
		slices.Concat(harmlessKubeletFlags, d.told), restarts)
	if extra := h.extraFlags(); len(extra) > 0 {
		d.add(Stays, h.Name, "KUBELET_EXTRA_ARGS, with --"+strings.Join(slices.Sorted(maps.Keys(extra)), ", --"), "")
	}
	return nil
}
