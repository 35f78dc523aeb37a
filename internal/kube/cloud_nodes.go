package kube

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// taintUninitialized is on nodes of an external cloud until its controller has told their addresses and zone
// (k8s.io/cloud-provider/api).
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// Initialized reports whether the node's cloud has told its addresses and zone, or has no controller that does. Before, no pod comes to it.
func (n NodeInfo) Initialized() bool {
	return !slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == taintUninitialized })
}

// CheckInitialized reports whether the named nodes are registered and initialized by their cloud's controller. fail.NotReady names
// those that are not.
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
