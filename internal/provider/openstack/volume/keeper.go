package volume

import (
	"context"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Step is the ID of the step that requests root volumes.
const Step = "volumes"

// States of a volume.
const (
	Available = "available"
	Deleting  = "deleting"

	inUse     = "in-use"
	creating  = "creating"
	extending = "extending"
)

// Options configures a Keeper: the cluster whose volumes it keeps, and its access to the rest of the cluster.
type Options struct {
	Cluster  *v1alpha1.Cluster
	Names    marks.Names
	Timeouts Timeouts
	Cloud    func(context.Context) (*cloud.Cloud, error)
	Existing *existing.Finder
	Known    *cache.Cache[volumes.Volume] // of the cluster's machines

	Servers   *cache.Cache[servers.Server]
	Server    func(machine string) (servers.Server, bool)
	HasServer func(machine string) bool // also one in deletion
}

// Timeouts bounds the waits of a Keeper.
type Timeouts struct {
	Volume time.Duration // until a volume is made or changed
	Delete time.Duration // until a volume is gone
	Step   time.Duration // allowance of a step that waits for nothing
	Poll   time.Duration // pause between two polls
}

// Keeper keeps the volumes of a cluster's machines.
type Keeper struct{ opts Options }

// New returns the keeper of a cluster's volumes. It makes no call.
func New(o Options) *Keeper { return &Keeper{opts: o} }

// shape returns the shape of a machine.
func (k *Keeper) shape(m provider.MachineSpec) v1alpha1.MachineShape {
	return k.opts.Cluster.Shape(string(m.Role), m.Pool)
}

// SetMetadata replaces the metadata of a volume. gophercloud has no such call.
func (k *Keeper) SetMetadata(ctx context.Context, v volumes.Volume, meta map[string]string) error {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return err
	}
	cinder, err := c.BlockStorage()
	if err != nil {
		return err
	}
	resp, err := cinder.Put(ctx, cinder.ServiceURL("volumes", v.ID, "metadata"), map[string]any{"metadata": meta}, nil, //nolint:bodyclose // gophercloud closes it
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	_, _, err = gophercloud.ParseResponse(resp, err)
	k.opts.Known.Change(v.ID, func(v *volumes.Volume) { v.Metadata = meta })
	return cloud.Wrap(cloud.UnlessGone(err), "set the metadata of volume %s", v.Name)
}
