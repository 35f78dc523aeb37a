package containerd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/cluster/adopt/containerd"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestDefaults: the output of `containerd config default` loses nothing, in any version of the format.
func TestDefaults(t *testing.T) {
	for _, name := range []string{"default-1.6.toml", "default-2.2.toml"} {
		data := testkit.Value(os.ReadFile(filepath.Join("testdata", name)))(t)
		c := testkit.Value(containerd.Read(containerd.DefaultFile, map[string][]byte{containerd.DefaultFile: data}))(t)
		if len(c.Lost) > 0 || c.Root != "/var/lib/containerd" || c.State != "/run/containerd" || c.Address != "/run/containerd/containerd.sock" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestRead reads configurations as people and tools write them.
func TestRead(t *testing.T) {
	const v2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  containerd.Config
	}{
		"no file":    {nil, containerd.Config{}},
		"empty":      {map[string]string{"config.toml": ""}, containerd.Config{}},
		"v1 root":    {map[string]string{"config.toml": "root = \"/data/containerd\"\n[plugins.cri]\nsandbox_image = \"x\"\n[plugins.cri.containerd]\nsnapshotter = \"zfs\"\n"}, containerd.Config{Root: "/data/containerd", Lost: []string{"cri.containerd.snapshotter=zfs goes"}}},
		"v2 state":   {map[string]string{"config.toml": "version = 2\nstate = \"/ephemeral/containerd\"\n[grpc]\naddress = \"/ephemeral/c.sock\"\n"}, containerd.Config{State: "/ephemeral/containerd", Address: "/ephemeral/c.sock"}},
		"v3 sandbox": {map[string]string{"config.toml": "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'mirror/pause:3.9'\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'stargz'\n"}, containerd.Config{Lost: []string{"cri.containerd.snapshotter=stargz goes"}}},
		"Kubespray": {map[string]string{"config.toml": `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  max_recv_message_size = 16777216
  max_send_message_size = 16777216
[debug]
  level = "info"
[metrics]
  address = ""
  grpc_histogram = false
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.10"
    max_container_log_line_size = 16384
    enable_unprivileged_ports = false
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "runc"
      snapshotter = "overlayfs"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"
          runtime_engine = ""
          runtime_root = ""
          base_runtime_spec = "/etc/containerd/cri-base.json"
          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
            SystemdCgroup = true
            BinaryName = "/usr/local/bin/runc"
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = "/etc/containerd/certs.d"
`}, containerd.Config{Root: "/var/lib/containerd", State: "/run/containerd", Lost: []string{"cri.containerd.runtimes.runc.base_runtime_spec=/etc/containerd/cri-base.json goes"}}},
		"KubeOne": {map[string]string{"config.toml": `version = 3
[metrics]
address = "127.0.0.1:1338"
[plugins]
[plugins."io.containerd.cri.v1.images"]
discard_unpacked_layers = false
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "registry.k8s.io/pause:3.10"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".registry.configs]
[plugins."io.containerd.cri.v1.images".registry.configs."mirror.example.com"]
[plugins."io.containerd.cri.v1.images".registry.configs."mirror.example.com".auth]
username = "hunter"
password = "hunter2"
[plugins."io.containerd.cri.v1.runtime"]
device_ownership_from_security_context = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
`}, containerd.Config{Lost: []string{"cri.device_ownership_from_security_context=true goes", "metrics.address=127.0.0.1:1338 goes", "the credentials of mirror.example.com go"}}},
		"NVIDIA": {map[string]string{"config.toml": v2 + `[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
privileged_without_host_devices = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
`}, containerd.Config{Lost: []string{"cri.containerd.default_runtime_name=nvidia goes", "the runtime nvidia goes"}}},
		"mirrors": {map[string]string{"config.toml": v2 + `[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
endpoint = ["https://user:hunter2@mirror.example.org"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."mirror.example.org".tls]
insecure_skip_verify = true
[plugins."io.containerd.grpc.v1.cri".registry.headers]
X-Token = ["hunter2"]
`}, containerd.Config{Lost: []string{`cri.registry.configs."mirror.example.org".tls.insecure_skip_verify=true goes`, "cri.registry.headers.X-Token goes", `cri.registry.mirrors."docker.io".endpoint=["https://mirror.example.org"] goes`}}},
		"certificates elsewhere": {map[string]string{"config.toml": v2 + "[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/certs\"\n"}, containerd.Config{Lost: []string{"cri.registry.config_path=/etc/certs goes"}}},
		"imports": {map[string]string{"config.toml": "version = 2\nimports = [\"conf.d/*.toml\", \"/etc/containerd/config.toml\"]\nroot = \"/a\"\n", "conf.d/10-root.toml": "version = 2\nroot = \"/b\"\n", "conf.d/20-runsc.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]\nruntime_type = 'io.containerd.runsc.v1'\n", "conf.d/other.txt": "["},
			containerd.Config{Root: "/b", Lost: []string{"the runtime runsc goes"}}},
		"another runc": {map[string]string{"config.toml": v2 + "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nBinaryName = \"/usr/local/bin/my-runc\"\nSystemdCgroup = false\n"}, containerd.Config{Lost: []string{"cri.containerd.runtimes.runc.options.BinaryName=/usr/local/bin/my-runc goes"}}},
		"defaults of 1.7": {map[string]string{"config.toml": `version = 2
[plugins."io.containerd.grpc.v1.cri"]
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
drain_exec_sync_io_timeout = "0s"
enable_cdi = false
image_pull_progress_timeout = "5m0s"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
sandbox_mode = "podsandbox"
[plugins."io.containerd.nri.v1.nri"]
disable = true
plugin_path = "/opt/nri/plugins"
[plugins."io.containerd.transfer.v1.local"]
max_concurrent_downloads = 3
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux/amd64"
snapshotter = "overlayfs"
[plugins."io.containerd.snapshotter.v1.overlayfs"]
mount_options = []
[plugins."io.containerd.internal.v1.tracing"]
sampling_ratio = 1.0
service_name = "containerd"
`}, containerd.Config{}},
		"NVIDIA's import": {map[string]string{"config.toml": "imports = [\"/etc/containerd/conf.d/*.toml\"]\nversion = 3\n", "conf.d/99-nvidia.toml": "version = 3\n[plugins]\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"nvidia\"\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n"},
			containerd.Config{Lost: []string{"cri.containerd.default_runtime_name=nvidia goes", "the runtime nvidia goes"}}},
		"an import without a version": {map[string]string{"config.toml": "imports = [\"more.toml\"]\nversion = 2\n", "more.toml": "[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"r.example.org\"]\nendpoint = [\"http://r.example.org\"]\n"},
			containerd.Config{Lost: []string{`cri.registry.mirrors."r.example.org".endpoint=["http://r.example.org"] goes`}}},
		"a snapshotter of its own": {map[string]string{"config.toml": "version = 2\n[proxy_plugins.stargz]\ntype = \"snapshot\"\naddress = \"/run/stargz.sock\"\n"},
			containerd.Config{Lost: []string{"proxy_plugins.stargz.address=/run/stargz.sock goes", "proxy_plugins.stargz.type=snapshot goes"}}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string][]byte{}
			for file, text := range c.files {
				files["/etc/containerd/"+file] = []byte(text)
			}
			got := testkit.Value(containerd.Read(containerd.DefaultFile, files))(t)
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got.Lost, "\n"), "hunter") {
				t.Errorf("a credential is shown: %v", got.Lost)
			}
		})
	}
}

// TestBad: a file that is not TOML is named with its line, and not quoted.
func TestBad(t *testing.T) {
	for text, want := range map[string]string{
		"version = 2\npassword = hunter2\n": "config.toml: line 2 is not TOML",
		"imports = 3\n":                     "config.toml: it is not what containerd reads",
	} {
		_, err := containerd.Read(containerd.DefaultFile, map[string][]byte{containerd.DefaultFile: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
