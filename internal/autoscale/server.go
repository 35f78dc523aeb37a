// Package autoscale answers a cluster-autoscaler's questions about the pools of one cluster that scale, and has them changed as it asks
// (its provider "externalgrpc"). Who may ask is said by client certificates.
//
// It knows what a pool is, and the protocol. How a pool is changed is whoever's business that implements Pools.
package autoscale

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
)

// Pools are the pools of a cluster that scale.
type Pools interface {
	// Refresh looks again, and goes on with what was asked before and is not done.
	Refresh(ctx context.Context) error
	// List returns what was seen last.
	List(ctx context.Context) ([]scaling.Pool, error)
	// Grow decides that a pool has more machines. It returns when that is remembered; they are made afterwards.
	Grow(ctx context.Context, pool string, by int) error
	// Remove decides that these machines go, and that the pool has as many fewer, in the same way.
	Remove(ctx context.Context, pool string, machines []string) error
	// Forgo decides that a pool has fewer machines by some that there are not yet.
	Forgo(ctx context.Context, pool string, by int) error
}

// service speaks the protocol for Pools.
type service struct {
	externalgrpc.UnimplementedCloudProviderServer
	pools Pools
}

// codeOf says in the protocol's terms what sort of thing went wrong. An autoscaler tries again later, whatever it is.
func codeOf(err error) codes.Code {
	switch fail.KindOf(err) {
	case fail.Invalid:
		return codes.InvalidArgument
	case fail.Refused:
		return codes.FailedPrecondition
	case fail.NotReady, fail.Conflict, fail.Unreachable, fail.Interrupted:
		return codes.Unavailable
	case fail.NotFound:
		return codes.NotFound
	case fail.Unauthorized:
		return codes.PermissionDenied
	}
	return codes.Internal
}

// answer is a response, or the error in the protocol's terms.
func answer[T any](response *T, err error) (*T, error) {
	if err != nil {
		return nil, status.Error(codeOf(err), err.Error())
	}
	return response, nil
}

// group is a pool in the protocol's terms.
func group(p scaling.Pool) *externalgrpc.NodeGroup {
	return &externalgrpc.NodeGroup{
		Id: p.Name, MinSize: int32(p.Min), MaxSize: int32(p.Max),
		Debug: fmt.Sprintf("pool %s: %d machines wanted, %d to %d allowed", p.Name, p.Size, p.Min, p.Max),
	}
}

// pool returns one pool as it was seen last.
func (s *service) pool(ctx context.Context, name string) (scaling.Pool, error) {
	pools, err := s.pools.List(ctx)
	if err != nil {
		return scaling.Pool{}, err
	}
	i := slices.IndexFunc(pools, func(p scaling.Pool) bool { return p.Name == name })
	if i < 0 {
		return scaling.Pool{}, fail.New(fail.NotFound, "there is no pool %q that scales", name)
	}
	return pools[i], nil
}

func (s *service) NodeGroups(ctx context.Context, _ *externalgrpc.NodeGroupsRequest) (*externalgrpc.NodeGroupsResponse, error) {
	pools, err := s.pools.List(ctx)
	r := &externalgrpc.NodeGroupsResponse{}
	for _, p := range pools {
		r.NodeGroups = append(r.NodeGroups, group(p))
	}
	return answer(r, err)
}

// NodeGroupForNode knows a machine that is not a node yet by its provider ID, which the autoscaler then takes for its name as well.
func (s *service) NodeGroupForNode(ctx context.Context, q *externalgrpc.NodeGroupForNodeRequest) (*externalgrpc.NodeGroupForNodeResponse, error) {
	pools, err := s.pools.List(ctx)
	r := &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{}}
	for _, p := range pools {
		if _, ok := find(p, q.GetNode()); ok {
			r.NodeGroup = group(p)
		}
	}
	return answer(r, err)
}

// find returns the machine of a pool that is meant by a node.
func find(p scaling.Pool, n *externalgrpc.ExternalGrpcNode) (scaling.Machine, bool) {
	i := slices.IndexFunc(p.Machines, func(m scaling.Machine) bool {
		if id := n.GetProviderID(); id != "" {
			return m.ProviderID == id
		}
		return m.Name == n.GetName() || m.ProviderID == n.GetName()
	})
	if i < 0 {
		return scaling.Machine{}, false
	}
	return p.Machines[i], true
}

func (s *service) GPULabel(context.Context, *externalgrpc.GPULabelRequest) (*externalgrpc.GPULabelResponse, error) {
	return &externalgrpc.GPULabelResponse{}, nil
}

func (s *service) GetAvailableGPUTypes(context.Context, *externalgrpc.GetAvailableGPUTypesRequest) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
	return &externalgrpc.GetAvailableGPUTypesResponse{}, nil
}

func (s *service) Cleanup(context.Context, *externalgrpc.CleanupRequest) (*externalgrpc.CleanupResponse, error) {
	return &externalgrpc.CleanupResponse{}, nil
}

func (s *service) Refresh(ctx context.Context, _ *externalgrpc.RefreshRequest) (*externalgrpc.RefreshResponse, error) {
	return answer(&externalgrpc.RefreshResponse{}, s.pools.Refresh(ctx))
}

func (s *service) NodeGroupTargetSize(ctx context.Context, q *externalgrpc.NodeGroupTargetSizeRequest) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
	p, err := s.pool(ctx, q.GetId())
	return answer(&externalgrpc.NodeGroupTargetSizeResponse{TargetSize: int32(p.Size)}, err)
}

func (s *service) NodeGroupIncreaseSize(ctx context.Context, q *externalgrpc.NodeGroupIncreaseSizeRequest) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
	if q.GetDelta() < 1 {
		return answer[externalgrpc.NodeGroupIncreaseSizeResponse](nil, fail.New(fail.Invalid, "pool %s can't grow by %d", q.GetId(), q.GetDelta()))
	}
	return answer(&externalgrpc.NodeGroupIncreaseSizeResponse{}, s.pools.Grow(ctx, q.GetId(), int(q.GetDelta())))
}

func (s *service) NodeGroupDecreaseTargetSize(ctx context.Context, q *externalgrpc.NodeGroupDecreaseTargetSizeRequest) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
	if q.GetDelta() >= 0 {
		return answer[externalgrpc.NodeGroupDecreaseTargetSizeResponse](nil, fail.New(fail.Invalid, "pool %s can't shrink by %d", q.GetId(), -q.GetDelta()))
	}
	return answer(&externalgrpc.NodeGroupDecreaseTargetSizeResponse{}, s.pools.Forgo(ctx, q.GetId(), -int(q.GetDelta())))
}

// NodeGroupDeleteNodes refuses all where one of them is not of the pool.
func (s *service) NodeGroupDeleteNodes(ctx context.Context, q *externalgrpc.NodeGroupDeleteNodesRequest) (*externalgrpc.NodeGroupDeleteNodesResponse, error) {
	p, err := s.pool(ctx, q.GetId())
	var names []string
	for _, n := range q.GetNodes() {
		m, ok := find(p, n)
		if !ok && err == nil {
			err = fail.New(fail.Invalid, "pool %s has no machine %s", q.GetId(), n.GetName())
		}
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	if err == nil && len(names) > 0 {
		err = s.pools.Remove(ctx, q.GetId(), names)
	}
	return answer(&externalgrpc.NodeGroupDeleteNodesResponse{}, err)
}

// otherError is the autoscaler's class of errors that are not for lack of room.
const otherError = 99

func (s *service) NodeGroupNodes(ctx context.Context, q *externalgrpc.NodeGroupNodesRequest) (*externalgrpc.NodeGroupNodesResponse, error) {
	p, err := s.pool(ctx, q.GetId())
	r := &externalgrpc.NodeGroupNodesResponse{}
	for _, m := range p.Machines {
		st := &externalgrpc.InstanceStatus{InstanceState: externalgrpc.InstanceStatus_instanceRunning}
		switch {
		case m.Leaves:
			st.InstanceState = externalgrpc.InstanceStatus_instanceDeleting
		case !m.Exists || !m.Runs:
			st.InstanceState = externalgrpc.InstanceStatus_instanceCreating
		}
		if m.Problem != "" {
			st.ErrorInfo = &externalgrpc.InstanceErrorInfo{ErrorCode: "failed", ErrorMessage: m.Problem, InstanceErrorClass: otherError}
		}
		r.Instances = append(r.Instances, &externalgrpc.Instance{Id: m.ProviderID, Status: st})
	}
	return answer(r, err)
}

func (s *service) NodeGroupTemplateNodeInfo(ctx context.Context, q *externalgrpc.NodeGroupTemplateNodeInfoRequest) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
	p, err := s.pool(ctx, q.GetId())
	if err != nil {
		return answer[externalgrpc.NodeGroupTemplateNodeInfoResponse](nil, err)
	}
	if p.Shape == nil {
		return nil, status.Errorf(codes.Unimplemented, "pool %s has had no node yet: nobody knows what one would be like", p.Name)
	}
	node, err := template(p)
	return answer(&externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeInfo: node, NodeBytes: node}, err)
}
