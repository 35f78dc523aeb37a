package host

import (
	"os"
	"path"
	"slices"
	"strings"
)

// Leftovers returns the remains of a former cluster that a new cluster's programs would mistake for their own: static pods, etcd's data, pod
// networks, and their links.
func (r Root) Leftovers() (out []string) {
	in := func(dir string, endings ...string) {
		entries, _ := os.ReadDir(r.Path(dir))
		for _, e := range entries {
			if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && slices.Contains(endings, path.Ext(e.Name())) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	in("/etc/kubernetes/manifests", ".yaml", ".yml", ".json")
	in("/etc/cni/net.d", ".conf", ".conflist", ".json") // as containerd chooses them
	if IsDir(r.Path("/var/lib/etcd/member")) {
		out = append(out, "/var/lib/etcd/member")
	}
	for _, link := range []string{"cni0", "flannel.1", "cilium_host", "kube-ipvs0", "vxlan.calico", "nodelocaldns"} {
		if _, err := os.Lstat(r.Path("/sys/class/net/" + link)); err == nil {
			out = append(out, "/sys/class/net/"+link)
		}
	}
	return out
}
