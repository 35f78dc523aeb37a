package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// csiCluster is the key by which cinder-csi-plugin writes down whose a volume is; it is told our cluster ID with --cluster.
const csiCluster = "cinder.csi.openstack.org/cluster"

// servicePrefix begins the names of load balancers of Services: openstack-cloud-controller-manager calls them
// kube_service_CLUSTER_NAMESPACE_NAME, and it is told our cluster ID with --cluster-name. No cluster ID holds an underscore, so
// the name says exactly whose it is.
func servicePrefix(n marks.Names) string { return "kube_service_" + n.ID + "_" }

// Leftovers lists what the cluster itself has made and is still there: two lists, whatever there is, and a look at each server that the
// last observation does not know and that has a volume attached.
func (p *Provider) Leftovers(ctx context.Context) (provider.Leftovers, error) {
	var out provider.Leftovers
	c, err := p.cloud(ctx)
	if err != nil {
		return out, err
	}
	all, err := volumesWith(ctx, c, csiCluster, p.n.ID)
	if err != nil {
		return out, cloud.Wrap(err, "list the volumes of claims")
	}
	for _, v := range all {
		left := leftVolume(v)
		if left.Stranger, err = p.stranger(ctx, v); err != nil {
			return out, err
		}
		out.Volumes = append(out.Volumes, left)
	}
	lb, err := p.balancer.Client(ctx)
	if err != nil || lb == nil {
		return out, err
	}
	bs, err := cloud.Pages(ctx, loadbalancers.List(lb, nil), loadbalancers.ExtractLoadBalancers)
	if cloud.Status(err) == http.StatusForbidden && p.octavia() == nil {
		return out, nil // nor may the cluster then
	}
	if err != nil {
		return out, cloud.Wrap(err, "list the load balancers of Services")
	}
	for _, b := range bs {
		if services := p.servicesOf(b); len(services) > 0 && b.ProvisioningStatus != balancer.Deleted {
			out.LoadBalancers = append(out.LoadBalancers, provider.LeftBalancer{
				ID: b.ID, Name: b.Name, State: b.ProvisioningStatus, Address: b.VipAddress, Services: services, Shared: p.isShared(b), Port: b.VipPortID,
			})
		}
	}
	return out, nil
}

// servicesOf returns the cluster's Services that a load balancer is of: by its name, or where several Services share one, by tags.
func (p *Provider) servicesOf(b loadbalancers.LoadBalancer) []string {
	var out []string
	for _, s := range append([]string{b.Name}, b.Tags...) {
		if service, ok := strings.CutPrefix(s, servicePrefix(p.n)); ok {
			out = append(out, strings.Replace(service, "_", "/", 1))
		}
	}
	return out
}

// isShared tells of a load balancer that Services of the cluster use and that is not the cluster's alone.
func (p *Provider) isShared(b loadbalancers.LoadBalancer) bool {
	own := servicePrefix(p.n)
	return !strings.HasPrefix(b.Name, own) || slices.ContainsFunc(b.Tags, func(t string) bool {
		return strings.HasPrefix(t, "kube_service_") && !strings.HasPrefix(t, own)
	})
}

// stranger returns the ID of a server that is not the cluster's and has a volume attached. The cluster's own let go of it when they
// are deleted, and one that is gone has let go of it.
func (p *Provider) stranger(ctx context.Context, v volumes.Volume) (string, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range v.Attachments {
		if _, own := p.known.servers.Find(func(s servers.Server) bool { return s.ID == a.ServerID }); own {
			continue
		}
		s, err := servers.Get(ctx, c.Compute, a.ServerID).Extract()
		switch {
		case cloud.Gone(err):
		case err != nil:
			return "", cloud.Wrap(err, "look at server %s, which has volume %s attached", a.ServerID, v.ID)
		case s.Metadata[marks.Underscored(marks.KeyCluster)] != p.n.ID:
			return s.ID, nil
		}
	}
	return "", nil
}

func leftVolume(v volumes.Volume) provider.LeftVolume {
	out := provider.LeftVolume{ID: v.ID, Name: v.Name, State: v.Status, GiB: v.Size, Zone: v.AvailabilityZone}
	const claim = "csi.storage.k8s.io/pvc/"
	if name := v.Metadata[claim+"name"]; name != "" {
		out.Claim = v.Metadata[claim+"namespace"] + "/" + name
	}
	return out
}
