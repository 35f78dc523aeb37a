package observe

import (
	"context"
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
)

// Obstacles lists what may delay an upgrade in progress, or break in the newer release.
func (c *Observer) Obstacles(ctx context.Context, o *Observed) ([]string, error) {
	told := c.Told()
	run, err := hops.Parse(c.Facts.Get(memory.ReleasesRun))
	if back := told == hops.Of(run.Machines); err != nil || !c.Moving() || back || c.ControlPlaneUnseen(o) || o.Nodes == nil {
		return nil, nil
	}
	if c.Facts.Get(memory.Begun) == told.String() {
		return nil, nil // the hop itself may have made nodes unready
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	found := c.shortOfRoom(o)
	for _, s := range o.Want {
		if n, known := o.Nodes[s.Name]; known && !n.Ready {
			found = append(found, "node "+s.Name+" is not ready")
		}
	}
	for _, h := range o.Health {
		if !h.OK() {
			found = append(found, "etcd member "+h.Name+" is not well")
		}
	}
	more, err := client.Obstacles(ctx, c.Drains(o, told))
	if err != nil {
		return nil, err
	}
	for _, k := range c.Doc.Spec.Updates.Checks {
		if err := client.Holds(ctx, kube.Check(k)); err != nil {
			found = append(found, err.Error())
		}
	}
	stored, err := client.StoredIn(ctx, release.Dropped(c.Goal().Version))
	if err != nil {
		return nil, err
	}
	used, err := c.deprecatedUse(ctx, o)
	return slices.Concat(found, more, stored, used), err
}

// Drains lists the nodes that an upgrade to a release drains, each with the number of its pool's future extra machines: wanted.WithSurge decides
// on them at that hop.
func (c *Observer) Drains(o *Observed, to hops.Releases) (all []kube.Away) {
	var pools []string
	for _, s := range wanted.Own(o.Want) {
		if _, known := o.Nodes[s.Name]; s.Role == provider.Worker && known && hops.OfPool(to, c.Pin(s)) == to.Machines { // others are not drained
			all, pools = append(all, kube.Away{Node: s.Name}), append(pools, s.Pool)
		}
	}
	drained, beside := map[string]int{}, map[string]int{} // existing nodes of extra machines: their room is known
	for _, pool := range pools {
		drained[pool]++
	}
	for _, s := range o.Want {
		if _, known := o.Nodes[s.Name]; s.Surge && known {
			beside[s.Pool]++
		}
	}
	for _, m := range o.Remove {
		if o.TakesPods(m) {
			beside[m.Pool]++
		}
	}
	for i, pool := range pools {
		all[i].Beside = max(0, min(c.Doc.Spec.Updates.Surge(), drained[pool])-beside[pool])
	}
	return all
}

// deprecatedUse asks every API server for used APIs that the wanted release no longer serves.
func (c *Observer) deprecatedUse(ctx context.Context, o *Observed) (found []string, err error) {
	for _, s := range o.Want {
		if !s.IsControlPlane() || !o.Serves(s.Name) {
			continue
		}
		client, err := c.KubeAt(ctx, s.Name)
		if err != nil {
			return nil, err
		}
		used, err := client.DeprecatedUse(ctx, release.MinorOf(c.Goal().Version))
		client.Close()
		if err != nil {
			return nil, err
		}
		for _, u := range used {
			if !slices.Contains(found, u) {
				found = append(found, u)
			}
		}
	}
	return found, nil
}

// roomForBlob is how many bytes a byte of a bundle takes on a machine: as it was sent, in containerd's store, and unpacked there.
const roomForBlob = 3

// shortOfRoom lists the machines whose disks lack room for the files and images that they are about to get.
func (c *Observer) shortOfRoom(o *Observed) (found []string) {
	sizes := map[string]int64{}
	for _, b := range c.ByRelease {
		for _, a := range b.Manifest.Binaries {
			sizes[a.Digest] = a.Size
		}
		for _, i := range b.Manifest.Images {
			sizes[i.Archive.Digest] = i.Archive.Size
		}
	}
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		if seen == nil || seen.Report == nil || seen.Report.DiskFree == 0 {
			continue
		}
		need := int64(0)
		for _, digest := range seen.Report.Missing {
			need += roomForBlob * sizes[digest]
		}
		if free := seen.Report.DiskFree; free < need {
			found = append(found, fmt.Sprintf("machine %s has %d MiB free below /var/lib, and the next release takes up to %d MiB there", s.Name, free>>20, need>>20))
		}
	}
	return found
}
