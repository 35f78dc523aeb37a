// Package programs derives the settings of Kubernetes' and etcd's programs from a cluster's document.
package programs

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// Of returns the document's settings of Kubernetes' and etcd's programs. auditor is the user with which API servers sign in to the audit webhook.
func Of(doc *v1alpha1.Cluster, auditor map[string]any) (layout.Settings, error) {
	spec := doc.Spec
	k := spec.Kubernetes
	s := layout.Settings{
		APIServer:         apiServer(k.APIServer, auditor),
		ControllerManager: controllerManager(k.ControllerManager),
		Scheduler:         layout.Program{Gates: k.Scheduler.FeatureGates, Args: arguments(k.Scheduler.ExtraArgs)},
		KubeProxy:         layout.Program{Gates: k.KubeProxy.FeatureGates},
		Etcd:              etcdProgram(spec.Etcd),
		EnablePlugins:     k.APIServer.EnableAdmissionPlugins, DisablePlugins: k.APIServer.DisableAdmissionPlugins,
		AuditWebhook: k.APIServer.AuditWebhook != nil,
	}
	machines := doc.SettingsOf(v1alpha1.RoleControlPlane, "")
	files := machines.Files
	s.APIServer.Reads = append(reads(flags.APIServer, k.APIServer.ExtraArgs, files), site.Authorities(machines)...) // Go reads the system's authorities once
	s.ControllerManager.Reads = reads(flags.ControllerManager, k.ControllerManager.ExtraArgs, files)
	s.Scheduler.Reads = reads(flags.Scheduler, k.Scheduler.ExtraArgs, files)
	var err error
	if s.APIServer.Files, err = admission(s.APIServer.Files, k.APIServer.AdmissionConfig, spec.Identity.PodSecurity); err != nil {
		return s, err
	}
	if s.Scheduler.Config, err = configText(k.Scheduler.Config); err != nil {
		return s, err
	}
	if s.KubeProxy.Config, err = configText(k.KubeProxy.Config); err != nil {
		return s, err
	}
	if k.KubeProxy.Mode != "" {
		s.KubeProxy.Config["mode"] = k.KubeProxy.Mode
	}
	s.Kubelet, err = kubeletProgram(k.Kubelet)
	return s, err
}

// reads returns the files that a program reads because of its flags, with the content that the document gives them. Files that a program reads again
// by itself have none: it need not restart for them.
func reads(program string, args []v1alpha1.Arg, files []v1alpha1.MachineFile) (out []machine.File) {
	for _, a := range args {
		for _, name := range flags.Reads(program, a.Name, a.Value) {
			f := machine.File{Path: name}
			if i := slices.IndexFunc(files, func(m v1alpha1.MachineFile) bool { return m.Path == name }); i >= 0 && !flags.Reloads(a.Name) {
				f.Content = []byte(files[i].Content)
			}
			out = append(out, f)
		}
	}
	return out
}

// arguments returns flags in the document's order.
func arguments(list []v1alpha1.Arg) (out []layout.Argument) {
	for _, a := range list {
		out = append(out, layout.Argument(a))
	}
	return out
}

// configText decodes fields of a configuration file. The text has been validated.
func configText(text string) (map[string]any, error) {
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read a configuration text of the document")
	}
	delete(out, "apiVersion") // the release decides them
	delete(out, "kind")
	return out, nil
}

// set adds a numeric flag, unless its value is 0.
func set(args []layout.Argument, name string, value int) []layout.Argument {
	if value == 0 {
		return args
	}
	return append(args, layout.Argument{Name: name, Value: strconv.Itoa(value)})
}

func apiServer(a v1alpha1.APIServer, auditor map[string]any) layout.Program {
	p := layout.Program{Gates: a.FeatureGates}
	var list []string
	for _, version := range slices.Sorted(maps.Keys(a.RuntimeConfig)) {
		list = append(list, version+"="+strconv.FormatBool(a.RuntimeConfig[version]))
	}
	if len(list) > 0 {
		p.Args = append(p.Args, layout.Argument{Name: "runtime-config", Value: strings.Join(list, ",")})
	}
	p.Args = set(p.Args, "max-requests-inflight", a.MaxRequestsInflight)
	p.Args = set(p.Args, "max-mutating-requests-inflight", a.MaxMutatingRequestsInflight)
	list = nil
	for _, resource := range slices.Sorted(maps.Keys(a.WatchCacheSizes)) {
		list = append(list, resource+"#"+strconv.Itoa(a.WatchCacheSizes[resource]))
	}
	if len(list) > 0 {
		p.Args = append(p.Args, layout.Argument{Name: "watch-cache-sizes", Value: strings.Join(list, ",")})
	}
	p.Args = append(p.Args, arguments(a.ExtraArgs)...)
	if w := a.AuditWebhook; w != nil {
		p.Files = append(p.Files, layout.ProgramFile{
			Flag: "audit-webhook-config-file", Name: "audit-webhook.yaml", Content: layout.WebhookKubeconfig(w.URL, w.CA, auditor), Secret: auditor != nil,
		})
	}
	return p
}

// admission adds the configuration of the API server's admission plugins, if there is any.
func admission(files []layout.ProgramFile, text string, p *v1alpha1.PodSecurity) ([]layout.ProgramFile, error) {
	if p != nil {
		var err error
		text, err = identity.AdmissionConfig(text, p.Config())
		if err != nil {
			return nil, err
		}
	}
	if text == "" {
		return files, nil
	}
	return append(files, layout.ProgramFile{Flag: "admission-control-config-file", Name: "admission.yaml", Content: text}), nil
}

func controllerManager(m v1alpha1.ControllerManager) layout.Program {
	p := layout.Program{Gates: m.FeatureGates}
	if d := m.NodeMonitorGracePeriod.Duration; d != 0 {
		p.Args = append(p.Args, layout.Argument{Name: "node-monitor-grace-period", Value: d.String()})
	}
	p.Args = set(p.Args, "terminated-pod-gc-threshold", m.TerminatedPodGCThreshold)
	p.Args = append(p.Args, arguments(m.ExtraArgs)...)
	return p
}

func etcdProgram(e v1alpha1.Etcd) layout.Program {
	p := layout.Program{Gates: e.FeatureGates}
	p.Args = set(p.Args, "quota-backend-bytes", e.QuotaBackendGiB<<30)
	p.Args = set(p.Args, "heartbeat-interval", e.HeartbeatMilliseconds)
	p.Args = set(p.Args, "election-timeout", e.ElectionMilliseconds)
	p.Args = append(p.Args, arguments(e.ExtraArgs)...)
	return p
}

// kubeletProgram returns the kubelet settings as fields of the kubelet configuration file.
func kubeletProgram(k v1alpha1.Kubelet) (layout.Program, error) {
	config, err := configText(k.Config)
	p := layout.Program{Gates: k.FeatureGates, Args: arguments(k.ExtraArgs), Config: config}
	if err != nil {
		return p, err
	}
	for key, n := range map[string]int{
		"maxPods": k.MaxPods, "podPidsLimit": k.PodPidsLimit, "evictionMaxPodGracePeriod": k.EvictionMaxPodGracePeriod,
		"containerLogMaxFiles": k.ContainerLogMaxFiles,
	} {
		if n != 0 {
			config[key] = n
		}
	}
	for key, s := range map[string]string{
		"reservedSystemCPUs": k.ReservedSystemCPUs, "containerLogMaxSize": k.ContainerLogMaxSize, "cpuManagerPolicy": k.CPUManagerPolicy,
		"memoryManagerPolicy": k.MemoryManagerPolicy, "topologyManagerPolicy": k.TopologyManagerPolicy,
	} {
		if s != "" {
			config[key] = s
		}
	}
	for key, m := range map[string]map[string]string{
		"systemReserved": k.SystemReserved, "kubeReserved": k.KubeReserved, "evictionHard": k.EvictionHard, "evictionSoft": k.EvictionSoft,
		"evictionSoftGracePeriod": k.EvictionSoftGracePeriod,
	} {
		if len(m) > 0 {
			config[key] = anyMap(m)
		}
	}
	if k.SwapBehavior != "" {
		config["memorySwap"] = map[string]any{"swapBehavior": k.SwapBehavior}
	}
	if k.SeccompDefault != nil {
		config["seccompDefault"] = *k.SeccompDefault
	}
	return p, nil
}

func anyMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// OfPool returns the kubelet settings of a pool, or nil for machines that are in no pool.
func OfPool(spec v1alpha1.Spec, pool string) (*layout.Program, error) {
	i := slices.IndexFunc(spec.Workers, func(p v1alpha1.Pool) bool { return p.Name == pool })
	if i < 0 {
		return nil, nil
	}
	p, err := kubeletProgram(spec.Kubernetes.Kubelet.For(spec.Workers[i]))
	return &p, err
}
