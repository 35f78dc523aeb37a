package leftovers

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// Options configures a Sweeper: the cluster whose leftovers it finds, and its access to the cloud.
type Options struct {
	Names     marks.Names
	Octavia   bool          // the document wants a load balancer, so the project may list them
	Delete    time.Duration // until a deleted resource is gone
	Poll      time.Duration // pause between two polls
	Cloud     func(context.Context) (*cloud.Cloud, error)
	Balancing func(context.Context) (*gophercloud.ServiceClient, error) // client of the load-balancer service; nil if the project can't use it
	Lacks     *cloud.Lacks
	Own       func(serverID string) bool // whether a server is known as the cluster's
}

// Sweeper finds and deletes what the cluster's own controllers made in the cloud.
type Sweeper struct{ opts Options }

// New returns the sweeper of a cluster. It makes no call.
func New(o Options) *Sweeper { return &Sweeper{opts: o} }

// csiCluster is the metadata key in which cinder-csi-plugin records a volume's cluster; the plugin gets our cluster ID from its flag --cluster.
const csiCluster = "cinder.csi.openstack.org/cluster"

// servicePrefix returns the name prefix of load balancers of Services: openstack-cloud-controller-manager names them
// kube_service_CLUSTER_NAMESPACE_NAME, where CLUSTER is our cluster ID from --cluster-name. Cluster IDs contain no underscore, so the prefix
// identifies the cluster.
func servicePrefix(n marks.Names) string { return "kube_service_" + n.ID + "_" }

// Leftovers lists the remaining resources that the cluster itself made. It makes two list calls, and one call for each server that has such a
// volume attached and is missing from the last observation.
func (s *Sweeper) Leftovers(ctx context.Context) (provider.Leftovers, error) {
	var out provider.Leftovers
	c, err := s.opts.Cloud(ctx)
	if err != nil {
		return out, err
	}
	all, err := c.VolumesWith(ctx, csiCluster, s.opts.Names.ID)
	if err != nil {
		return out, cloud.Wrap(err, "list the volumes of claims")
	}
	for _, v := range all {
		left := leftVolume(v)
		if left.Stranger, err = s.stranger(ctx, v); err != nil {
			return out, err
		}
		out.Volumes = append(out.Volumes, left)
	}
	lb, err := s.opts.Balancing(ctx)
	if err != nil || lb == nil {
		return out, err
	}
	bs, err := cloud.Pages(ctx, loadbalancers.List(lb, nil), loadbalancers.ExtractLoadBalancers)
	if cloud.Status(err) == http.StatusForbidden && !s.opts.Octavia {
		return out, nil // the cluster may use no load balancers either
	}
	if err != nil {
		return out, cloud.Wrap(err, "list the load balancers of Services")
	}
	for _, b := range bs {
		if services := servicesOf(s.opts.Names, b); len(services) > 0 && b.ProvisioningStatus != balancer.Deleted {
			out.LoadBalancers = append(out.LoadBalancers, provider.LeftBalancer{
				ID: b.ID, Name: b.Name, State: b.ProvisioningStatus, Address: b.VipAddress, Services: services, Shared: isShared(s.opts.Names, b), Port: b.VipPortID,
			})
		}
	}
	return out, nil
}

// Volumes returns the cluster's own volumes of claims and those with the given IDs. It lists the project's volumes once, because a restored
// cluster may use many, each marked for another cluster.
func (s *Sweeper) Volumes(ctx context.Context, ids []string) ([]provider.LeftVolume, error) {
	c, err := s.opts.Cloud(ctx)
	if err != nil || c.Volume == nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, volumes.List(c.Volume, volumes.ListOpts{}), volumes.ExtractVolumes)
	if err != nil {
		return nil, cloud.Wrap(err, "list volumes")
	}
	var out []provider.LeftVolume
	for _, v := range all {
		own := v.Metadata[csiCluster] == s.opts.Names.ID
		if !own && !slices.Contains(ids, v.ID) {
			continue
		}
		found := leftVolume(v)
		found.Own = own
		if found.Stranger, err = s.stranger(ctx, v); err != nil {
			return nil, err
		}
		out = append(out, found)
	}
	return out, nil
}

// servicesOf returns the cluster's Services that use a load balancer, read from its name or, if several Services share it, from its tags.
func servicesOf(n marks.Names, b loadbalancers.LoadBalancer) []string {
	var out []string
	for _, name := range append([]string{b.Name}, b.Tags...) {
		if service, ok := strings.CutPrefix(name, servicePrefix(n)); ok {
			out = append(out, strings.Replace(service, "_", "/", 1))
		}
	}
	return out
}

// isShared reports whether a load balancer of the cluster's Services was made by, or also serves, another owner.
func isShared(n marks.Names, b loadbalancers.LoadBalancer) bool {
	own := servicePrefix(n)
	return !strings.HasPrefix(b.Name, own) || slices.ContainsFunc(b.Tags, func(t string) bool {
		return strings.HasPrefix(t, "kube_service_") && !strings.HasPrefix(t, own)
	})
}

// stranger returns the ID of a server outside the cluster that has a volume attached; empty if there is none. The cluster's own servers release
// volumes when they are deleted, and a deleted server holds none.
func (s *Sweeper) stranger(ctx context.Context, v volumes.Volume) (string, error) {
	c, err := s.opts.Cloud(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range v.Attachments {
		if s.opts.Own(a.ServerID) {
			continue
		}
		server, err := servers.Get(ctx, c.Compute, a.ServerID).Extract()
		switch {
		case cloud.Gone(err):
		case err != nil:
			return "", cloud.Wrap(err, "look at server %s, which has volume %s attached", a.ServerID, v.ID)
		case server.Metadata[marks.Underscored(marks.KeyCluster)] != s.opts.Names.ID:
			return server.ID, nil
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

// Step is the ID of FreeLeftovers' step.
const Step = "cloud/leftovers"

// FreeLeftovers returns the step that removes what the cluster itself made in the cloud, for a cluster that does not answer, and so can't do it
// itself: load balancers of Services with their floating IPs and, unless keepVolumes is set, volumes of claims. The step must run after the
// removal of the machines, which would recreate these resources and hold the volumes, and before DestroyNetworkStep. seen is the result of
// Leftovers that the plan shows to the user: no other volume is removed, nor one that a server outside the cluster has attached. Load balancers
// hold no data and block the removal of the network: all that belong to the cluster alone are removed, also ones newer than seen.
func (s *Sweeper) FreeLeftovers(seen provider.Leftovers, keepVolumes bool) *plan.Step {
	most := len(seen.LoadBalancers) + len(seen.Volumes)
	step := &plan.Step{
		ID: Step, Action: plan.Destroy, Subject: "cluster", Title: "delete what the cluster created in the cloud and did not delete",
		Reason: "nothing else deletes it", Timeout: time.Duration(most+2)*s.opts.Delete + time.Minute, // each removal extends the limit for the others
	}
	wanted := map[string]bool{}
	for _, v := range seen.Volumes {
		wanted[v.ID] = !keepVolumes
	}
	step.Run = func(ctx context.Context, progress plan.Progress) error {
		var limit time.Time
		fewest := math.MaxInt
		for {
			left, err := s.Leftovers(ctx)
			if err != nil {
				return err
			}
			left.LoadBalancers = slices.DeleteFunc(left.LoadBalancers, func(b provider.LeftBalancer) bool { return b.Shared })
			left.Volumes = slices.DeleteFunc(left.Volumes, func(v provider.LeftVolume) bool { return !wanted[v.ID] || v.Stranger != "" })
			n := len(left.LoadBalancers) + len(left.Volumes)
			if n == 0 {
				return nil
			}
			if n < fewest {
				fewest, limit = n, time.Now().Add(s.opts.Delete)
			}
			refused, err := s.freeRound(ctx, left, progress)
			if err != nil {
				return err
			}
			if time.Now().After(limit) {
				return stillLeft(left, refused)
			}
			if err := cloud.Sleep(ctx, s.opts.Poll); err != nil {
				return err
			}
		}
	}
	return step
}

// stillLeft returns an error that names the resources that outlasted the time limit, with the cloud's last refusal.
func stillLeft(left provider.Leftovers, refused error) error {
	var names []string
	for _, b := range left.LoadBalancers {
		names = append(names, b.String())
	}
	for _, v := range left.Volumes {
		names = append(names, v.String())
	}
	if refused == nil {
		refused = errors.New("the cloud takes too long")
	}
	return fail.Wrap(fail.Refused, refused, "what the cluster made in the cloud is still there: %s", strings.Join(names, ", ")).
		Do("see to what holds it (snapshots, backups), and run the same command again; --keep-volumes leaves volumes alone")
}

// freeRound asks the cloud to delete everything in left, except load balancers that are being changed or deleted, and volumes that are being
// deleted. refused is the last refusal for a resource that is still in use.
func (s *Sweeper) freeRound(ctx context.Context, left provider.Leftovers, progress plan.Progress) (refused, err error) {
	c, err := s.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	keep := func(err error, what string) error {
		switch status := cloud.Status(err); {
		case err == nil || status == http.StatusNotFound:
			return nil
		case status == http.StatusBadRequest || status == http.StatusConflict: // attached, or changing
			refused = cloud.Wrap(err, "delete %s", what)
			return nil
		}
		return cloud.Wrap(err, "delete %s", what)
	}
	for _, b := range left.LoadBalancers {
		progress.Status("%s", b)
		if strings.HasPrefix(b.State, "PENDING") {
			continue
		}
		lb, err := c.LoadBalancer()
		if err == nil {
			err = s.freeAddresses(ctx, b)
		}
		if err != nil {
			return refused, err
		}
		if err := keep(loadbalancers.Delete(ctx, lb, b.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(), b.String()); err != nil {
			return refused, err
		}
	}
	for _, v := range left.Volumes {
		progress.Status("%s", v)
		if v.State == volume.Deleting {
			continue
		}
		if err := keep(volumes.Delete(ctx, c.Volume, v.ID, nil).ExtractErr(), v.String()); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// freeAddresses releases the floating IPs that the cluster's controller made for a Service's load balancer, before the load balancer is deleted, so
// that they can still be found after a crash. Their description identifies them; a floating IP that a user assigned to a Service stays.
func (s *Sweeper) freeAddresses(ctx context.Context, b provider.LeftBalancer) error {
	c, err := s.opts.Cloud(ctx)
	if err != nil {
		return err
	}
	all, err := cloud.Pages(ctx, floatingips.List(c.Network, floatingips.ListOpts{PortID: b.Port}), floatingips.ExtractFloatingIPs)
	if s.opts.Lacks.Learns(cloud.KindFloating, err) {
		return nil
	}
	if err != nil {
		return cloud.Wrap(err, "list the floating IPs of %s", b)
	}
	for _, f := range all {
		made := strings.HasPrefix(f.Description, "Floating IP for Kubernetes external service ") && strings.HasSuffix(f.Description, " from cluster "+s.opts.Names.ID)
		if !made || f.PortID != b.Port {
			continue
		}
		if err := floatingips.Delete(ctx, c.Network, f.ID).ExtractErr(); err != nil && !cloud.Gone(err) {
			return cloud.Wrap(err, "give back floating IP %s", f.FloatingIP)
		}
	}
	return nil
}
