// Package autoscale serves a cluster-autoscaler (its provider "externalgrpc"): it describes the scaling pools of one cluster and requests changes to
// them. Client certificates authenticate the autoscaler.
//
// It knows pools and the protocol. The implementation of Pools changes the pools.
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
	// Refresh updates the observed state, and resumes unfinished changes.
	Refresh(ctx context.Context) error
	// List returns the pools as last observed.
	List(ctx context.Context) ([]scaling.Pool, error)
	// Grow adds machines to a pool. It returns once the decision is stored; the machines are created afterwards.
	Grow(ctx context.Context, pool string, by int) error
	// Remove removes machines and reduces the pool's size by their number. Like Grow, it returns once the decision is stored.
	Remove(ctx context.Context, pool string, machines []string) error
	// Forgo reduces a pool's size by machines that do not exist yet.
	Forgo(ctx context.Context, pool string, by int) error
}

// service speaks the protocol for Pools.
type service struct {
	externalgrpc.UnimplementedCloudProviderServer
	pools Pools
}

// codeOf maps the kind of an error to a gRPC code. An autoscaler retries later after any of them.
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

// answer returns a response, or the error as a gRPC status.
func answer[T any](response *T, err error) (*T, error) {
	if err != nil {
		return nil, status.Error(codeOf(err), err.Error())
	}
	return response, nil
}

// group returns a pool as the protocol's NodeGroup.
func group(p scaling.Pool) *externalgrpc.NodeGroup {
	return &externalgrpc.NodeGroup{
		Id: p.Name, MinSize: int32(p.Min), MaxSize: int32(p.Max),
		Debug: fmt.Sprintf("pool %s: %d machines wanted, %d to %d allowed", p.Name, p.Size, p.Min, p.Max),
	}
}

// pool returns one pool as last observed.
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

// NodeGroupForNode also finds machines that are not nodes yet: for these the autoscaler sends the provider ID as the name.
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

// find returns the machine of a pool to which a node refers.
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

// NodeGroupDeleteNodes removes no node if any of them is not in the pool.
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

// otherError is the autoscaler's class of errors other than a lack of resources.
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
		return nil, status.Errorf(codes.Unimplemented, "pool %s has had no node yet, so its shape is unknown", p.Name)
	}
	node, err := template(p)
	return answer(&externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeInfo: node, NodeBytes: node}, err)
}
