package cluster

import "github.com/naupegos/naupegos/internal/kube/layout"

// release is the cluster's release: what its records and addons are of.
func (c *Cluster) release() layout.Release {
	return layout.Release{Version: c.doc.Spec.Kubernetes.Version, Bundle: c.bundle.Manifest}
}

// releaseOf is the release that a machine runs. All run the cluster's; an upgrade will have some of them run another one for a while.
func (c *Cluster) releaseOf(string) layout.Release { return c.release() }
