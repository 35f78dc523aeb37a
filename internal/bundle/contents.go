package bundle

import (
	"slices"

	"github.com/naupegos/naupegos/internal/bundle/content"
	"github.com/naupegos/naupegos/internal/fail"
)

// program is one executable that was built or pulled.
type program struct {
	Artifact
	file string // on disk
	from string // component
}

// programs maps names to the executables of a release.
type programs map[string]program

// addAll adds the files of a cached result.
func (p programs) addAll(component string, e *cacheEntry) {
	for _, a := range e.Files {
		p[a.Name] = program{Artifact: a, file: e.path(a.Name), from: component}
	}
}

// hostBinaries maps names of executables on hosts to the programs' names.
func hostBinaries() map[string]string {
	return map[string]string{
		"kubeadm": "kubeadm", "kubelet": "kubelet", "kubectl": "kubectl",
		"etcd": "etcd", "etcdctl": "etcdctl", "etcdutl": "etcdutl",
		"containerd": "containerd", "containerd-shim-runc-v2": "containerd-shim-runc-v2", "ctr": "ctr",
		"cni/bridge": "bridge", "cni/host-local": "host-local", "cni/loopback": "loopback", "cni/portmap": "portmap", "cni/ptp": "ptp",
		"cni/flannel": "cni-flannel",
	}
}

const (
	roleControlPlane = "control-plane"
	roleWorker       = "worker"
	nobody           = "65532:65532"
)

// images returns the images of a release with their content.
func (r recipe) images(p programs, d *debianParts) ([]imageSpec, error) {
	b := &imageBuilder{programs: p}
	controlPlane, all := []string{roleControlPlane}, []string{roleControlPlane, roleWorker}
	authorities := content.File{Path: authoritiesPath, Data: d.authorities, Mode: 0o644}
	const bin = "/usr/local/bin/"
	specs := []imageSpec{
		{Name: "kube-apiserver", Tag: r.Kubernetes, Roles: controlPlane, Entry: []string{bin + "kube-apiserver"}, Files: b.with(authorities, bin, "kube-apiserver")},
		{Name: "kube-controller-manager", Tag: r.Kubernetes, Roles: controlPlane, Entry: []string{bin + "kube-controller-manager"}, Files: b.with(authorities, bin, "kube-controller-manager")},
		{Name: "kube-scheduler", Tag: r.Kubernetes, Roles: controlPlane, Entry: []string{bin + "kube-scheduler"}, Files: b.at(bin, "kube-scheduler")},
		{Name: "kube-proxy", Tag: r.Kubernetes, Roles: all, Entry: []string{bin + "kube-proxy"}, Files: slices.Concat(b.at(bin, "kube-proxy"), protocols(), d.netfilter)},
		{Name: "etcd", Tag: r.EtcdTag(), Roles: controlPlane, Entry: []string{bin + "etcd"}, Files: b.at(bin, "etcd", "etcdctl", "etcdutl")},
		// Root, with all capabilities but NET_BIND_SERVICE dropped by kubeadm's manifest: it binds port 53.
		{Name: "coredns", Tag: r.CoreDNS, Roles: all, Entry: []string{"/coredns"}, Ports: []string{"53/tcp", "53/udp"}, Files: b.with(authorities, "/", "coredns")},
		{Name: "flannel", Tag: r.Flannel, Roles: all, Entry: []string{"/opt/bin/flanneld"}, Files: append(b.flannel(authorities), d.netfilter...)},
		{Name: "pause", Tag: r.Pause, Roles: all, Entry: []string{"/pause"}, User: "65535:65535", Files: b.at("/", "pause")},
		{Name: "echo", Tag: toolsVersion, Roles: all, Entry: []string{"/echo"}, User: nobody, Ports: []string{"8080/tcp"}, Files: b.at("/", "echo")},
	}
	for i := range specs {
		specs[i].Files = append(specs[i].Files, accounts()...)
	}
	return specs, b.err
}

// imageBuilder collects files. err names the first missing program.
type imageBuilder struct {
	programs programs
	err      error
}

func (b *imageBuilder) put(path, name string) content.File {
	p, ok := b.programs[name]
	if !ok && b.err == nil {
		b.err = fail.New(fail.Internal, "program %q is missing for an image", name)
	}
	return content.File{Path: path, Source: p.file, Mode: 0o755}
}

func (b *imageBuilder) at(dir string, names ...string) []content.File {
	var out []content.File
	for _, n := range names {
		out = append(out, b.put(dir+n, n))
	}
	return out
}

func (b *imageBuilder) with(f content.File, dir string, names ...string) []content.File {
	return append(b.at(dir, names...), f)
}

// flannel returns the files of flannel's image, including the CNI plugins, which machines that joined by plain kubeadm lack.
func (b *imageBuilder) flannel(authorities content.File) []content.File {
	const plugins = "/usr/libexec/cni/"
	files := append(b.at("/opt/bin/", "flanneld"), b.at("/", "install-cni")...)
	files = append(files, b.at(plugins, "bridge", "host-local", "loopback", "portmap")...)
	return append(files, b.put(plugins+"flannel", "cni-flannel"), authorities)
}

// protocols returns /etc/protocols with the protocols that rules use. Without it, nft reports kube-proxy's rules for "tcp" as rules for "6" after
// kube-proxy restarts: kube-proxy takes these for stale ones, and deletes the rules that it has just written.
func protocols() []content.File {
	return []content.File{{Path: "/etc/protocols", Mode: 0o644, Data: []byte("icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\nsctp 132 SCTP\n")}}
}

func accounts() []content.File {
	return []content.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\nnogroup:x:65534:\n")},
	}
}
