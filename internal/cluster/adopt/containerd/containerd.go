// Package containerd reads containerd configurations of operators and tools: versions 1 to 4 of the format, with imports. It lists the settings
// that differ from the defaults and would be lost if another configuration replaced this one, and never returns credentials.
//
// It knows nothing of clusters or hosts: its input is files, its output settings.
package containerd

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// DefaultFile is where containerd looks for its configuration.
const DefaultFile = "/etc/containerd/config.toml"

// Config holds the parts of a configuration that matter when another one replaces it.
type Config struct {
	Root, State, Address string   // empty: containerd's default
	Lost                 []string // settings that are neither defaults nor harmless, as "name=value", sorted
}

// Imports returns the patterns of further files that a configuration includes, as absolute paths.
func Imports(file string, data []byte) (patterns []string, err error) {
	var c struct {
		Imports []string `toml:"imports"`
	}
	if _, err := toml.Decode(string(data), &c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, readable(err))
	}
	for _, p := range c.Imports {
		if !path.IsAbs(p) {
			p = path.Join(path.Dir(file), p)
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// readable shortens a parser's complaint to line and reason: it could quote a credential.
func readable(err error) error {
	if p, ok := err.(toml.ParseError); ok { //nolint:errorlint // the parser returns it unwrapped
		return fmt.Errorf("line %d is not TOML", p.Position.Line)
	}
	return fmt.Errorf("it is not what containerd reads")
}

// Read reads a configuration and its imports. Without the file, containerd's defaults apply.
func Read(file string, files map[string][]byte) (*Config, error) {
	s := settings{}
	if err := s.read(file, files, map[string]bool{}); err != nil {
		return nil, err
	}
	c := &Config{Root: s.take("root"), State: s.take("state"), Address: s.take("grpc.address")}
	for name, value := range s {
		if !harmless(name, value) {
			c.Lost = append(c.Lost, shown(name, value))
		}
	}
	slices.Sort(c.Lost)
	c.Lost = slices.Compact(c.Lost)
	return c, nil
}

// settings are values as JSON, by the names of version 2 without the CRI plugin's own; keys that hold a dot are quoted.
type settings map[string]string

// take removes a setting and returns it.
func (s settings) take(name string) string {
	value := s[name]
	delete(s, name)
	return strings.Trim(value, `"`)
}

// read adds a file and then its imports, which override it. It reads each file once.
func (s settings) read(file string, files map[string][]byte, seen map[string]bool) error {
	data, there := files[file]
	if !there || seen[file] {
		return nil
	}
	seen[file] = true
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		return fmt.Errorf("%s: %w", file, readable(err))
	}
	s.add(nil, tree)
	patterns, err := Imports(file, data)
	if err != nil {
		return err
	}
	for _, pattern := range patterns {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if ok, _ := path.Match(pattern, name); ok {
				if err := s.read(name, files, seen); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add flattens a table below a path.
func (s settings) add(at []string, table map[string]any) {
	for key, value := range table {
		below := append(slices.Clone(at), key)
		if t, ok := value.(map[string]any); ok {
			s.add(below, t)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			continue // TOML has no value that JSON lacks but infinities, which no setting takes
		}
		below, value := canonical(below), string(text)
		if below[len(below)-1] == "bin_dirs" {
			below[len(below)-1], value = "bin_dir", strings.NewReplacer("[", "", "]", "").Replace(value)
		}
		s[join(below)] = value
	}
}

// canonical returns one name for a setting of the CRI plugin, whatever the version: version 1 calls the plugin cri, 2 io.containerd.grpc.v1.cri,
// 3 splits it in two, and 4 calls the section of the socket server.
func canonical(at []string) []string {
	if len(at) < 3 || at[0] != "plugins" {
		return at
	}
	rest := at[2:]
	switch at[1] {
	case "cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime":
	case "io.containerd.cri.v1.images":
		switch rest[0] {
		case "pinned_images":
			rest = []string{"sandbox_image"}
		case "snapshotter", "discard_unpacked_layers", "disable_snapshot_annotations":
			rest = append([]string{"containerd"}, rest...)
		}
	case "io.containerd.server.v1.grpc":
		return append([]string{"grpc"}, rest...)
	default:
		return at[1:]
	}
	return append([]string{"cri"}, rest...)
}

func join(at []string) string {
	words := make([]string, len(at))
	for i, word := range at {
		if words[i] = word; i > 0 && strings.Contains(word, ".") {
			words[i] = `"` + word + `"`
		}
	}
	return strings.Join(words, ".")
}

// zeros are values without effect: containerd uses its default, or a feature is off.
var zeros = []string{`""`, "0", "false", "[]", "{}", "null", `"0s"`}

// anyValue marks settings that are harmless with every value.
var anyValue = []string(nil)

// harmlessSettings are values that are containerd's defaults, or that change nothing for pods and nodes.
var harmlessSettings = map[string][]string{
	"version": anyValue, "imports": anyValue, "oom_score": anyValue, "temp": anyValue, "debug.level": anyValue, "debug.format": anyValue,
	"grpc.max_recv_message_size": {"16777216"}, "grpc.max_send_message_size": {"16777216"}, "required_plugins": anyValue,
	"cri.sandbox_image": anyValue, "cri.disable_hugetlb_controller": {"true"}, "cri.tolerate_missing_hugetlb_controller": {"true"}, "cri.disable_tcp_service": {"true"},
	"cri.max_concurrent_downloads": {"3"}, "cri.max_container_log_line_size": {"16384"}, "cri.selinux_category_range": {"1024"}, "cri.stats_collect_period": {"10"},
	"cri.stream_idle_timeout": {`"4h0m0s"`, `"4h"`}, "cri.stream_server_address": {`"127.0.0.1"`}, "cri.stream_server_port": anyValue, "cri.enable_unprivileged_ports": {"true"},
	"cri.enable_unprivileged_icmp": {"true"}, "cri.enable_cdi": {"true"}, "cri.cdi_spec_dirs": {`["/etc/cdi","/var/run/cdi"]`}, "cri.enable_criu": {"true"},
	"cri.image_pull_progress_timeout": anyValue, "cri.restrict_oom_score_adj": anyValue, "cri.disable_apparmor": anyValue, "cri.disable_cgroup": anyValue,
	"cri.use_local_image_pull": anyValue, "cri.systemd_cgroup": anyValue,
	"cri.cni.bin_dir": {`"/opt/cni/bin"`}, "cri.cni.conf_dir": {`"/etc/cni/net.d"`, `"/etc/cni/net.d/"`}, "cri.cni.max_conf_num": {"1"}, "cri.cni.setup_serially": anyValue,
	"cri.containerd.default_runtime_name": {`"runc"`}, "cri.containerd.snapshotter": {`"overlayfs"`}, "cri.containerd.disable_snapshot_annotations": anyValue,
	"cri.containerd.no_pivot": anyValue, "cri.containerd.runtimes.runc.runtime_type": {`"io.containerd.runc.v2"`, `"io.containerd.runc.v1"`},
	"cri.containerd.runtimes.runc.sandboxer": {`"podsandbox"`}, "cri.containerd.runtimes.runc.sandbox_mode": {`"podsandbox"`},
	"cri.containerd.runtimes.runc.options.SystemdCgroup": anyValue, "cri.image_decryption.key_model": {`"node"`},
	"cri.registry.config_path": {`"/etc/containerd/certs.d"`, `"/etc/containerd/certs.d/"`, `"/etc/containerd/certs.d:/etc/docker/certs.d"`},
	"disabled_plugins":         anyValue, // CRI is on: the kubelet uses it
	"cgroup.path":              anyValue,
}

// harmlessSections are sections without a setting that matters to pods.
var harmlessSections = []string{"timeouts.", "ttrpc.", `stream_processors."io.containerd.ocicrypt.decoder.`, "io.containerd.gc.v1.scheduler.", "io.containerd.internal.v1.",
	"io.containerd.metadata.v1.bolt.", "io.containerd.monitor.", "io.containerd.runtime.v1.linux.", "io.containerd.runtime.v2.task.", "io.containerd.service.v1.",
	"io.containerd.image-verifier.v1.bindir.", "io.containerd.nri.v1.nri.", "io.containerd.transfer.v1.", "io.containerd.shim.v1.", "io.containerd.snapshotter.v1.overlayfs.",
	"io.containerd.tracing.", "io.containerd.differ.v1.", "io.containerd.mount-handler.v1.", "cri.x509_key_pair_streaming.", "cri.containerd.default_runtime.",
	"cri.containerd.untrusted_workload_runtime.", "opt.", "scheduler.", "bolt.", "cgroups.", "restart.", "linux.", "task.", "diff-service.", "tasks-service."}

// harmless reports whether nothing is lost with a setting.
func harmless(name, value string) bool {
	if slices.Contains(zeros, value) {
		return true
	}
	if values, known := harmlessSettings[name]; known && (values == nil || slices.Contains(values, value)) {
		return true
	}
	if name == "cri.containerd.runtimes.runc.options.BinaryName" {
		return path.Base(strings.Trim(value, `"`)) == "runc"
	}
	return slices.ContainsFunc(harmlessSections, func(s string) bool { return strings.HasPrefix(name, s) })
}

var (
	secretName = regexp.MustCompile(`(?i)auth|pass|token|secret|header|username|key`)
	userInfo   = regexp.MustCompile(`//[^/@"]*@`)
	runtime    = regexp.MustCompile(`^cri\.containerd\.runtimes\.("[^"]*"|[^.]+)\.`)
)

// shown formats a setting for a finding. It never shows credentials, and names another runtime once, without its options.
func shown(name, value string) string {
	if m := runtime.FindStringSubmatch(name); m != nil && m[1] != "runc" {
		return "the runtime " + strings.Trim(m[1], `"`) + " goes"
	}
	if host, ok := strings.CutPrefix(name, "cri.registry.configs."); ok && secretName.MatchString(host) {
		if at := strings.LastIndex(host, ".auth."); at >= 0 {
			return "the credentials of " + strings.Trim(host[:at], `"`) + " go"
		}
	}
	if at := strings.LastIndex(name, "."); secretName.MatchString(name[at+1:]) || strings.Contains(name, ".header.") || strings.Contains(name, ".auths.") {
		return name + " goes"
	}
	return name + "=" + userInfo.ReplaceAllString(strings.Trim(value, `"`), "//") + " goes"
}
