// Package release is the contract with Kubernetes: the supported releases, the components of each, and the requirements of each minor.
//
// Bundles are built and machines are rendered from it, so differences between releases are stated here and nowhere else. It is pure data.
package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Default is the release of a document that names none, and the one with which all tests run. A test ensures that the documentation names it, too.
// The Makefile reads it from here.
const Default = "v1.37.2"

// Release is a Kubernetes release with the versions of its components. Etcd, CoreDNS and pause are the versions of the release's kubeadm
// (cmd/kubeadm/app/constants), so that kubeadm's own tools find what they expect.
type Release struct {
	Kubernetes string
	Etcd       string // "v3.6.8"
	CoreDNS    string // version and image tag
	Pause      string // image tag
	Flannel    string
	CNI        string // the plugins
	Containerd string
	OpenStack  string // cloud-provider-openstack, in bundles with that set of addons
}

// All returns the releases that have recipes, newest first.
func All() []Release {
	// The same for all releases. runc comes from the distribution: see Minor.Packages.
	const flannel, cni, containerd = "v0.28.4", "v1.9.1", "v2.2.9"
	return []Release{
		{"v1.37.2", "v3.7.0", "v1.14.6", "3.10.2", flannel, cni, containerd, "v1.36.0"}, // the module proxy serves no cloud-provider-openstack of 1.37
		{"v1.36.4", "v3.6.8", "v1.14.2", "3.10.2", flannel, cni, containerd, "v1.36.0"},
		{"v1.36.3", "v3.6.8", "v1.14.2", "3.10.2", flannel, cni, containerd, "v1.36.0"},
		{"v1.35.8", "v3.6.6", "v1.13.1", "3.10.1", flannel, cni, containerd, "v1.35.0"},
		{"v1.35.4", "v3.6.6", "v1.13.1", "3.10.1", flannel, cni, containerd, "v1.35.0"},
	}
}

// EtcdTag returns the image tag that kubeadm expects for etcd: "3.6.8-0".
func (r Release) EtcdTag() string { return strings.TrimPrefix(r.Etcd, "v") + "-0" }

// Find returns the release of a version; false if it has no recipe.
func Find(version string) (Release, bool) {
	all := All()
	i := slices.IndexFunc(all, func(r Release) bool { return r.Kubernetes == version })
	if i < 0 {
		return Release{}, false
	}
	return all[i], true
}

// Versions returns the versions of all releases, newest first.
func Versions() []string {
	var out []string
	for _, r := range All() {
		out = append(out, r.Kubernetes)
	}
	return out
}

// Former returns the newest release of the n-th minor before Default's; empty if there are fewer minors with recipes.
func Former(n int) string {
	minor := MinorOf(Default)
	for _, v := range Versions() {
		if m := MinorOf(v); m != minor {
			if minor, n = m, n-1; n == 0 {
				return v
			}
		}
	}
	return ""
}

// Parse splits "v1.36.3" into numbers; false if the version has another form.
func Parse(version string) (out [3]int, ok bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if !strings.HasPrefix(version, "v") || len(parts) != len(out) {
		return out, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || strconv.Itoa(n) != p {
			return [3]int{}, false
		}
		out[i] = n
	}
	return out, true
}

// Compare orders versions; texts that are not versions come first.
func Compare(a, b string) int {
	x, _ := Parse(a)
	y, _ := Parse(b)
	return slices.Compare(x[:], y[:])
}

// MinorOf returns the minor of a version, "1.36" for "v1.36.3", or "" if the version has another form.
func MinorOf(version string) string {
	v, ok := Parse(version)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d.%d", v[0], v[1])
}
