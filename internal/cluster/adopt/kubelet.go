package adopt

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/programs"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/release/flags"
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

// kubeletSettings returns the settings of the kubelet's configuration as texts.
func (h Host) kubeletSettings() (map[string]string, error) {
	fields, err := h.kubeletFields()
	if err != nil {
		return nil, err
	}
	return texts(fields)
}

// kubeletFields returns the settings of the kubelet's configuration with the drop-ins of its --config-dir, which count more.
func (h Host) kubeletFields() (map[string]any, error) {
	_, data := h.kubeletConfig()
	all, err := fieldsOf(data)
	if err != nil {
		return nil, err
	}
	dir := h.kubeletArgs()["config-dir"]
	for _, file := range slices.Sorted(maps.Keys(h.Files)) {
		if dir == "" || path.Dir(file) != path.Clean(dir) || path.Ext(file) != ".conf" {
			continue
		}
		more, err := fieldsOf(h.Files[file])
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

// kubelet returns the comparisons of a host's kubelet.
func (d *drafting) kubelet(h Host) ([]comparison, error) {
	const restarts = "kubelet on each machine"
	pool := d.poolOf(h)
	node := func(of func(layout.Params, layout.Node) (map[string]string, error)) func(layout.Params) (map[string]string, error) {
		return func(p layout.Params) (out map[string]string, err error) {
			n := h.node()
			if n.Kubelet, err = programs.OfPool(d.doc.Spec, pool); err != nil {
				return nil, err
			}
			return of(p, n)
		}
	}
	config := comparison{where: h.Name, of: "kubelet's configuration", restarts: restarts, program: flags.Kubelet, pool: pool,
		neutral: slices.Concat([]string{"containerRuntimeEndpoint", "resolvConf", "staticPodPath"}, d.told),
		ours: node(func(p layout.Params, n layout.Node) (map[string]string, error) {
			text, _, err := p.KubeletSettings(n)
			if err != nil {
				return nil, err
			}
			return flat(text)
		})}
	theirFlags := h.kubeletFlags()
	var err error
	if config.fields, err = h.kubeletFields(); err != nil || len(config.fields) == 0 {
		file, _ := h.kubeletConfig()
		d.block(h.Name, "correct "+file, "the kubelet's configuration can't be read")
		return nil, nil
	}
	asFields(theirFlags, config.fields)
	if config.theirs, err = texts(config.fields); err != nil {
		return nil, err
	}
	d.moveToPKI(config.theirs, h)
	p, err := d.params()
	if err != nil {
		return nil, err
	}
	ours, err := config.ours(p)
	if err != nil {
		return nil, err
	}
	withoutUsualSettings("kubelet", config.theirs, ours)
	if extra := h.extraFlags(); len(extra) > 0 {
		d.add(Stays, h.Name, "KUBELET_EXTRA_ARGS, with --"+strings.Join(slices.Sorted(maps.Keys(extra)), ", --"), "")
	}
	return []comparison{config, {where: h.Name, of: "kubelet's flags", restarts: restarts, program: flags.Kubelet, pool: pool, theirs: theirFlags, neutral: slices.Concat(harmlessKubeletFlags, d.told),
		ours: node(func(p layout.Params, n layout.Node) (map[string]string, error) {
			_, text, err := p.KubeletSettings(n)
			told := envFlags(text) // these identify the existing node
			maps.DeleteFunc(told, func(name, _ string) bool { _, set := theirFlags[name]; return !set })
			return told, err
		})}}, nil
}

// asFields moves flags to the fields of the configuration that they override, as far as a document has these fields.
func asFields(args map[string]string, fields map[string]any) {
	for name, text := range args {
		field, ok := strings.CutPrefix(flags.Instead(flags.Kubelet, name), part(flags.Kubelet))
		if !ok || field == "swapBehavior" { // of the flag fail-swap-on, which says nothing of pods
			continue
		}
		if value := parsed(reflect.TypeFor[v1alpha1.Kubelet](), field, text); value != nil {
			fields[field] = value
			delete(args, name)
		}
	}
}

// poolOf returns the pool of a host; empty for a control-plane machine.
func (d *drafting) poolOf(h Host) string {
	machines := d.want.Spec.Provider.Hosts.Machines
	i := slices.IndexFunc(machines, func(m v1alpha1.HostMachine) bool { return m.Name == h.Name })
	if i < 0 {
		return ""
	}
	return machines[i].Pool
}
