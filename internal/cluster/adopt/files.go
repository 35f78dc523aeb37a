package adopt

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/adopt/containerd"
	"github.com/naupegos/naupegos/internal/remote"
)

// wantedFiles are patterns, below a host's root, of files that every host is asked for.
const wantedFiles = "etc/os-release etc/hosts etc/kubernetes/admin.conf etc/kubernetes/manifests/* etc/kubernetes/pki/ca.* etc/kubernetes/pki/front-proxy-ca.* " +
	"etc/kubernetes/pki/sa.* etc/kubernetes/pki/etcd/ca.* var/lib/kubelet/config.yaml var/lib/kubelet/kubeadm-flags.env etc/default/kubelet " +
	"etc/containerd/config.toml etc/containerd/conf.d/*.toml var/lib/naupegos/agent/state.json " + unitFiles

// filesScript writes an archive of the files that exist. A dangling link is none. tar ends with 1 if a file changed while it was read.
func filesScript(patterns string) string {
	return "cd / && for f in " + patterns + `; do test -f "$f" && echo "$f"; done | tar -chf - -T -; test $? -le 1`
}

// factsScript prints facts about a host and its programs, one "name=value" a line. Tabs separate the words of command lines.
func factsScript() string {
	return `echo hostname=$(hostname)
echo systemd=$(test -d /run/systemd/system && echo yes)
echo dpkg=$(test -s /var/lib/dpkg/status && echo yes)
echo cgroup=$(stat -fc %T /sys/fs/cgroup)
echo container=$(cat /run/systemd/container 2>/dev/null)
echo stub=$(grep -q '^nameserver 127.0.0.5[34]' /etc/resolv.conf && test -s /run/systemd/resolve/resolv.conf && echo yes)
for u in kubelet containerd; do
p=$(systemctl show -p MainPID --value $u.service)
echo $u=$p
test "${p:-0}" -gt 0 && echo "${u}Args=$(tr '\000' '\011' </proc/$p/cmdline)"
done
echo runtime=$(systemctl show -p ExecStart --value containerd.service | sed -n 's/.*path=\([^ ;]*\).*/\1/p')
echo containerdRoot=$(readlink -f /var/lib/containerd)
echo server=$(sed -n 's/^ *server: *//p' /etc/kubernetes/kubelet.conf 2>/dev/null | head -n 1)
echo distribution=$(ls -d ` + distributionPaths() + ` 2>/dev/null)`
}

// factsOf parses the output of factsScript.
func factsOf(said []byte) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(string(said)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		facts[name] = value
	}
	return facts
}

// readHost reads one host: its facts, the files that every host has, and the files that these name.
func (r *Reader) readHost(ctx context.Context, h remote.Host) (Host, error) {
	out := Host{Name: h.Name, Address: h.Address, Keys: h.HostKeys}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	said, err := r.dialer.Run(ctx, h, nil, "sh", "-c", factsScript())
	if err != nil {
		return out, err
	}
	out.Facts = factsOf(said)
	if out.Files, err = r.files(ctx, h, wantedFiles); err != nil {
		return out, err
	}
	for range 3 { // files name further files: a kubelet's drop-ins, imports of imports
		more := out.further()
		if len(more) == 0 {
			break
		}
		files, err := r.files(ctx, h, strings.Join(more, " "))
		if err != nil {
			return out, err
		}
		before := len(out.Files)
		maps.Copy(out.Files, files)
		if len(out.Files) == before {
			break
		}
	}
	return out, nil
}

// plainPath is a path, or a pattern of paths, that a shell reads as nothing else.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/@:+*?-]+$`)

// further returns patterns, relative to the root, of files that flags and files name and that were not read yet.
func (h Host) further() (more []string) {
	var named []string
	flags := h.flags("kube-apiserver")
	named = append(named, flags[encryptionFlag], flags[auditPolicyFlag], flags["admission-control-config-file"], flags["oidc-ca-file"], h.flags("kube-scheduler")["config"])
	for _, base := range pkiBases {
		if h.isControlPlane() || base == "ca.crt" {
			named = append(named, h.pkiFile(base))
		}
	}
	config, _ := h.kubeletConfig()
	named = append(named, config, h.containerdFile())
	if dir := h.kubeletArgs()["config-dir"]; dir != "" {
		named = append(named, path.Join(dir, "*.conf"))
	}
	for _, file := range slices.Sorted(maps.Keys(h.Files)) {
		if path.Ext(file) == ".toml" || file == h.containerdFile() {
			patterns, err := containerd.Imports(file, h.Files[file])
			if err != nil {
				continue // the comparison names it
			}
			named = append(named, patterns...)
		}
	}
	for _, file := range named {
		relative := strings.TrimPrefix(file, "/")
		if _, read := h.Files[file]; !read && plainPath.MatchString(file) && !slices.Contains(more, relative) {
			more = append(more, relative)
		}
	}
	return more
}
