package layout

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// Settings are a document's settings of Kubernetes' and etcd's programs. Each machine uses those that its own release knows, because machines of two
// minors coexist during an upgrade.
type Settings struct {
	APIServer, ControllerManager, Scheduler, Kubelet, KubeProxy, Etcd Program
	// EnablePlugins and DisablePlugins are admission plugins of the API server.
	EnablePlugins, DisablePlugins []string
	// AuditWebhook makes the API server send audit events to a server, as one of its Files says.
	AuditWebhook bool
}

// Program has the settings of one program, in addition to those of Naupegos.
type Program struct {
	Gates  map[string]bool // feature gates
	Args   []Argument      // in order; a name may repeat
	Config map[string]any  // fields of the configuration file, as encoding/json decodes them
	Files  []ProgramFile
	Reads  []machine.File // of the machine, named by Args: their directories are mounted; without content, the program reloads a changed file by itself
}

// Argument is a flag without dashes and its value.
type Argument struct{ Name, Value string }

// ProgramFile is a file that a flag of a program names.
type ProgramFile struct {
	Flag, Name, Content string
	Secret              bool // plans do not show its content
}

// path returns the file's path on machines.
func (f ProgramFile) path() string { return ourDir + "/" + f.Name }

// empty reports whether nothing is set.
func (s Program) empty() bool {
	return len(s.Gates)+len(s.Args)+len(s.Config)+len(s.Files) == 0 // Reads belong to Args
}

// tables returns the tables of the minors that a program must match: its own, and the one that it emulates.
func tables(version string, emulates ...string) (all []flags.Table) {
	for _, minor := range append([]string{release.MinorOf(version)}, emulates...) {
		if t, ok := flags.Of(minor); ok {
			all = append(all, t)
		}
	}
	return all
}

// extend returns our arguments with a program's settings: its flags replace ours of the same name.
func (s Program) extend(ours []arg, program string, known []flags.Table) []arg {
	var theirs []arg
	for _, a := range s.Args {
		if everywhere(known, func(t flags.Table) bool { _, ok := t.Flag(program, a.Name); return ok }) {
			theirs = append(theirs, arg(a))
		}
	}
	if gates := s.gates(program, known); len(gates) > 0 && program != flags.Kubelet { // kubelet has them in its configuration file
		theirs = append(theirs, arg{"feature-gates", joinGates(gates)})
	}
	for _, f := range s.Files {
		theirs = append(theirs, arg{f.Flag, f.path()})
	}
	ours = slices.DeleteFunc(slices.Clone(ours), func(o arg) bool {
		return slices.ContainsFunc(theirs, func(t arg) bool { return t.Name == o.Name })
	})
	return append(ours, theirs...)
}

// gates returns the feature gates that all these minors have and permit to set.
func (s Program) gates(program string, known []flags.Table) map[string]bool {
	out := map[string]bool{}
	for name, on := range s.Gates {
		if everywhere(known, func(t flags.Table) bool {
			g, ok := t.Gate(program, name)
			return ok && (!g.Locked || g.Default == on)
		}) {
			out[name] = on
		}
	}
	return out
}

func everywhere(known []flags.Table, has func(flags.Table) bool) bool {
	return !slices.ContainsFunc(known, func(t flags.Table) bool { return !has(t) })
}

func joinGates(gates map[string]bool) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		list = append(list, fmt.Sprintf("%s=%v", name, gates[name]))
	}
	return strings.Join(list, ",")
}

// mounts returns our mounts and the directories of the files that the program reads.
func (s Program) mounts(ours []hostMount) []hostMount {
	for _, f := range s.Reads {
		dir := path.Dir(f.Path)
		if !slices.ContainsFunc(ours, func(m hostMount) bool { return dir == m.MountPath || strings.HasPrefix(dir, m.MountPath+"/") }) {
			sum := sha256.Sum256([]byte(dir))
			ours = append(ours, directory("files-"+hex.EncodeToString(sum[:4]), dir, true))
		}
	}
	return ours
}

// files renders the program's files.
func (s Program) files() (all []machine.File) {
	for _, f := range s.Files {
		all = append(all, machine.File{Path: f.path(), Mode: 0o600, Content: []byte(f.Content), Secret: f.Secret})
	}
	return all
}

// configured renders a program's configuration file: our fields, overridden by the program's settings.
func (s Program) configured(ours any, program, version string) ([]byte, error) {
	data, err := marshal(ours)
	if err != nil || s.empty() {
		return data, err
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the configuration of %s", program)
	}
	known := tables(version)
	theirs := map[string]any{}
	for key, value := range s.Config {
		if everywhere(known, func(t flags.Table) bool { _, ok := t.Field(program, key); return ok }) {
			theirs[key] = value
		}
	}
	if gates := s.gates(program, known); len(gates) > 0 {
		all := map[string]any{}
		for name, on := range gates {
			all[name] = on
		}
		theirs["featureGates"] = all
	}
	return marshal(overlaid(object, theirs))
}

// overlaid returns base overridden by over, mapping by mapping. Kubelet's thresholds and reservations are replaced as a whole.
func overlaid(base, over map[string]any) map[string]any {
	whole := []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "systemReserved", "kubeReserved"}
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		former, wasMap := base[key].(map[string]any)
		if isMap && wasMap && !slices.Contains(whole, key) {
			base[key] = overlaid(former, inner)
			continue
		}
		base[key] = value
	}
	return base
}

// plugins merges Naupegos's admission plugins with those of the settings.
func (s Settings) plugins(ours []arg) []arg {
	if len(s.EnablePlugins)+len(s.DisablePlugins) == 0 {
		return ours
	}
	const flag = "enable-admission-plugins"
	names := []string{"NodeRestriction"}
	for _, a := range ours {
		if a.Name == flag {
			names = strings.Split(a.Value, ",")
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(s.DisablePlugins, n) })
	for _, n := range s.EnablePlugins {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	ours = slices.DeleteFunc(slices.Clone(ours), func(a arg) bool { return a.Name == flag })
	ours = append(ours, arg{flag, strings.Join(names, ",")})
	if len(s.DisablePlugins) > 0 {
		ours = append(ours, arg{"disable-admission-plugins", strings.Join(s.DisablePlugins, ",")})
	}
	return ours
}

// knownPlugins returns the admission plugins that all these minors have.
func (s Settings) knownPlugins(known []flags.Table) Settings {
	unknown := func(name string) bool {
		return !everywhere(known, func(t flags.Table) bool { return t.Plugin(name) })
	}
	s.EnablePlugins = slices.DeleteFunc(slices.Clone(s.EnablePlugins), unknown)
	s.DisablePlugins = slices.DeleteFunc(slices.Clone(s.DisablePlugins), unknown)
	return s
}

// tables returns the tables that a machine's API server, controller manager and scheduler must match during an upgrade.
func (s Servers) tables(own Release) []flags.Table {
	if s.Release.Version == "" {
		return tables(own.Version)
	}
	var emulates []string
	if s.Emulates != "" {
		emulates = []string{s.Emulates}
	}
	return tables(s.Release.Version, emulates...)
}

// kubelet returns the settings of a machine's kubelet: its pool's, else the cluster's.
func (s Settings) kubelet(n Node) Program {
	if n.Kubelet != nil {
		return *n.Kubelet
	}
	return s.Kubelet
}

// schedulerConfig returns the scheduler's configuration file, or nil without settings.
func (s Settings) schedulerConfig(harden bool, version string) ([]byte, error) {
	if len(s.Scheduler.Config) == 0 {
		return nil, nil
	}
	ours := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": schedulerConf},
		"leaderElection":   map[string]any{"leaderElect": true, "retryPeriod": "500ms"},
		"enableProfiling":  !harden,
	}
	return Program{Config: s.Scheduler.Config}.configured(ours, flags.Scheduler, version)
}

// schedulerConfigPath is the path of the scheduler's configuration, if it has one.
const schedulerConfigPath = kubernetesDir + "/scheduler-config.yaml"

// policy returns the text of the audit policy.
func (p AuditLog) policy() string { return cmp.Or(p.Policy, auditPolicy) }

// etcdArgs returns the arguments of etcd that Naupegos and the settings add to kubeadm's.
func (s Settings) etcdArgs(version string) []arg {
	e := s.Etcd
	if len(e.Gates) > 0 {
		gates := map[string]bool{"InitialCorruptCheck": true} // kubeadm's own
		maps.Copy(gates, e.Gates)
		e.Gates = gates
	}
	return e.extend(etcdExtraArgs(), flags.Etcd, tables(version))
}

// schedulerMounts are the settings' mounts, in addition to kubeadm's.
func (s Settings) schedulerMounts() []hostMount {
	var mounts []hostMount
	if len(s.Scheduler.Config) > 0 {
		mounts = append(mounts, hostMount{Name: "config", HostPath: schedulerConfigPath, MountPath: schedulerConfigPath, ReadOnly: true, PathType: corev1.HostPathFileOrCreate})
	}
	return s.Scheduler.mounts(mounts)
}

// WebhookKubeconfig returns the kubeconfig of an API server's webhook. user has its credentials, as in kubeconfigs; empty: none.
func WebhookKubeconfig(url, ca string, user map[string]any) string {
	cluster := map[string]any{"server": url}
	if ca != "" {
		cluster["certificate-authority-data"] = base64.StdEncoding.EncodeToString([]byte(ca))
	}
	if user == nil {
		user = map[string]any{}
	}
	data, err := marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "webhook",
		"clusters": []any{map[string]any{"name": "webhook", "cluster": cluster}},
		"contexts": []any{map[string]any{"name": "webhook", "context": map[string]any{"cluster": "webhook", "user": "none"}}},
		"users":    []any{map[string]any{"name": "none", "user": user}},
	})
	if err != nil {
		return "" // strings can always be rendered
	}
	return string(data)
}
