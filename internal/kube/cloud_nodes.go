package kube

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// taintUninitialized is on nodes of an external cloud until the cloud's controller has reported their addresses and zone
// (k8s.io/cloud-provider/api).
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Initialized reports whether the node's cloud has reported its addresses and zone, or has no controller for that. Until then it gets no pods.
func (n NodeInfo) Initialized() bool {
	return !slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == taintUninitialized })
}

// CheckInitialized returns fail.NotReady with the named nodes that are not registered, or that their cloud's controller has not initialized.
func (c *Client) CheckInitialized(ctx context.Context, names []string) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	missing := slices.Clone(names)
	for _, n := range nodes {
		if n.Initialized() {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.Name })
		}
	}
	if len(missing) > 0 {
		return fail.New(fail.NotReady, "the cloud's controller has not initialized %s", strings.Join(missing, ", ")).
			Do("look at the logs of openstack-cloud-controller-manager in kube-system")
	}
	return nil
}
