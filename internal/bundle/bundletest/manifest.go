package bundletest

import (
	"crypto/sha256"
	"fmt"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
)

// Manifest returns the manifest of an imaginary bundle, with all fields that other packages render and no programs that could run.
func Manifest(version string) bundle.Manifest {
	digest := "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	if version != release.Default { // other releases have other content
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(version)))
	}
	m := bundle.Manifest{Schema: 1, Kubernetes: version, Platform: "linux/amd64", Origin: "built", Repository: "naupegos.dev/k8s"}
	for _, name := range []string{
		"cni/bridge", "cni/flannel", "cni/host-local", "cni/loopback", "cni/portmap", "containerd", "containerd-shim-runc-v2", "ctr",
		"etcd", "etcdctl", "etcdutl", "kubeadm", "kubectl", "kubelet",
	} {
		m.Binaries = append(m.Binaries, bundle.Artifact{Name: name, Digest: digest, Size: 1})
	}
	rel, ok := release.Find(version)
	if !ok {
		panic("bundletest: there is no recipe for Kubernetes " + version)
	}
	both := []string{"control-plane", "worker"}
	for _, i := range []struct {
		name, tag string
		roles     []string
	}{
		{"coredns", rel.CoreDNS, both}, {"etcd", rel.EtcdTag(), both[:1]}, {"flannel", rel.Flannel, both},
		{"kube-apiserver", version, both[:1]}, {"kube-controller-manager", version, both[:1]}, {"kube-proxy", version, both},
		{"kube-scheduler", version, both[:1]}, {"pause", rel.Pause, both},
	} {
		m.Images = append(m.Images, bundle.Image{
			Name: i.name, Ref: m.Repository + "/" + i.name + ":" + i.tag, ID: digest,
			Archive: bundle.Artifact{Name: i.name + ".tar", Digest: digest, Size: 1}, Roles: i.roles,
		})
	}
	return m
}
