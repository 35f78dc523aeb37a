package bundle

import (
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// OfficialURLs returns the URLs at which the projects publish their releases.
func OfficialURLs() BaseURLs {
	const github = "https://github.com/"
	return BaseURLs{
		Kubernetes: "https://dl.k8s.io/release",
		Etcd:       github + "etcd-io/etcd/releases/download",
		CNI:        github + "containernetworking/plugins/releases/download",
		Containerd: github + "containerd/containerd/releases/download",
		CoreDNS:    github + "coredns/coredns/releases/download",
		Flannel:    github + "flannel-io/flannel/releases/download",
		FlannelAPI: "https://api.github.com/repos/flannel-io/flannel/releases",
	}
}

// orOfficial fills empty fields with the official URLs, and trims trailing slashes.
func (u BaseURLs) orOfficial() BaseURLs {
	o := OfficialURLs()
	for _, f := range []struct{ mine, official *string }{{&u.Kubernetes, &o.Kubernetes}, {&u.Etcd, &o.Etcd}, {&u.CNI, &o.CNI},
		{&u.Containerd, &o.Containerd}, {&u.CoreDNS, &o.CoreDNS}, {&u.Flannel, &o.Flannel}, {&u.FlannelAPI, &o.FlannelAPI}} {
		if *f.mine == "" {
			*f.mine = *f.official
		}
		*f.mine = strings.TrimRight(*f.mine, "/")
	}
	return u
}

// download is one file of a project's release.
type download struct {
	component string
	version   string
	url       string
	sums      string            // URL of its published SHA-256
	find      sumFinder         // how to find it there
	programs  map[string]string // program → path in the tar.gz; nil: the file itself is the program, named by its URL
	name      string            // of the program, if programs is nil
	pin       string            // its SHA-256 by the recipe (hex); empty: not pinned
}

// sumFinder returns the digest (hex) of the named file in a published document.
type sumFinder func(document, file string) (string, error)

// downloads returns the upstream files of a release.
func (r recipe) downloads(u BaseURLs) []download {
	arch := runtime.GOARCH
	bare := func(v string) string { return strings.TrimPrefix(v, "v") }
	in := func(dir string, names ...string) map[string]string {
		out := map[string]string{}
		for _, n := range names {
			out[n] = path.Join(dir, n)
		}
		return out
	}
	var list []download
	for _, t := range r.kubernetes().targets {
		url := fmt.Sprintf("%s/%s/bin/linux/%s/%s", u.Kubernetes, r.Kubernetes, arch, t.name)
		list = append(list, download{component: "kubernetes", version: r.Kubernetes, url: url, sums: url + ".sha256", find: findSum, name: t.name})
	}
	etcd := fmt.Sprintf("etcd-%s-linux-%s", r.Etcd, arch)
	archive := func(component, version, base, file, sums string, programs map[string]string) {
		dir := base + "/" + version + "/"
		list = append(list, download{component: component, version: version, url: dir + file, sums: dir + sums, find: findSum, programs: programs})
	}
	archive("etcd", r.Etcd, u.Etcd, etcd+".tar.gz", "SHA256SUMS", in(etcd, "etcd", "etcdctl", "etcdutl"))
	cni := fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", arch, r.CNI)
	archive("cni-plugins", r.CNI, u.CNI, cni, cni+".sha256", in("", "bridge", "host-local", "loopback", "portmap", "ptp"))
	ctd := fmt.Sprintf("containerd-static-%s-linux-%s.tar.gz", bare(r.Containerd), arch)
	archive("containerd", r.Containerd, u.Containerd, ctd, ctd+".sha256sum", in("bin", "containerd", "containerd-shim-runc-v2", "ctr"))
	dns := fmt.Sprintf("coredns_%s_linux_%s.tgz", bare(r.CoreDNS), arch)
	archive("coredns", r.CoreDNS, u.CoreDNS, dns, dns+".sha256", in("", "coredns"))
	list = append(list, download{component: "flannel", version: r.Flannel, name: "flanneld",
		url:  fmt.Sprintf("%s/%s/flanneld-%s", u.Flannel, r.Flannel, arch),
		sums: u.FlannelAPI + "/tags/" + r.Flannel, find: findAsset})
	for i := range list {
		list[i].pin = r.pins[list[i].pinName()]
	}
	return list
}

// findSum finds a digest in a document of lines "<hex>  <name>", or in one with only a digest.
func findSum(document, file string) (string, error) {
	for line := range strings.Lines(document) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !isHex(strings.ToLower(fields[0])) {
			continue
		}
		if len(fields) == 1 || path.Base(strings.TrimPrefix(fields[1], "*")) == file {
			return strings.ToLower(fields[0]), nil
		}
	}
	return "", fail.New(fail.Refused, "the checksum of %s is not published where it is expected", file)
}

// findAsset finds a digest in GitHub's API description of a release.
func findAsset(document, file string) (string, error) {
	var release struct {
		Assets []struct{ Name, Digest string }
	}
	if err := json.Unmarshal([]byte(document), &release); err != nil {
		return "", fail.Wrap(fail.Refused, err, "read the description of the release of %s", file)
	}
	for _, a := range release.Assets {
		if a.Name == file && validDigest(a.Digest) {
			return hexOf(a.Digest), nil
		}
	}
	return "", fail.New(fail.Refused, "the checksum of %s is not published where it is expected", file)
}
