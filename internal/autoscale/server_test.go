package autoscale

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// pools implements Pools with the values of a test.
type pools struct {
	all  []scaling.Pool
	done []string
	err  error
}

func (p *pools) Refresh(context.Context) error { p.done = append(p.done, "refresh"); return p.err }
func (p *pools) List(context.Context) ([]scaling.Pool, error) {
	return p.all, nil
}
func (p *pools) Grow(_ context.Context, pool string, by int) error {
	p.done = append(p.done, "grow "+pool)
	return p.err
}
func (p *pools) Remove(_ context.Context, pool string, machines []string) error {
	p.done = append(p.done, slices.Concat([]string{"remove " + pool}, machines)...)
	return p.err
}
func (p *pools) Forgo(_ context.Context, pool string, by int) error {
	p.done = append(p.done, "forgo "+pool)
	return p.err
}

// served serves pools over TLS. It returns the authority of clients and a function that connects with certificates.
func served(t *testing.T, p Pools) (*pkitest.Authority, func(...tls.Certificate) externalgrpc.CloudProviderClient) {
	t.Helper()
	ca := pkitest.NewAuthority(t)
	own := ca.Issue(pki.LeafSpec{CommonName: "server", Server: true, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	l := testkit.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, p, func() (Identity, error) {
			return Identity{Cert: own.CertPEM, Key: own.KeyPEM, CA: ca.PEM(), Client: "the autoscaler"}, nil
		}, time.Minute)
	}()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-ended)
	})
	return ca, func(certs ...tls.Certificate) externalgrpc.CloudProviderClient {
		c := testkit.Value(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: ca.Pool(), Certificates: certs}))))(t)
		t.Cleanup(func() { c.Close() })
		return externalgrpc.NewCloudProviderClient(c)
	}
}

// general returns a pool with one running machine, one under creation, one whose creation failed, and one under removal.
func general() scaling.Pool {
	return scaling.Pool{
		Name: "general", Min: 1, Max: 5, Size: 3,
		Machines: []scaling.Machine{
			{Name: "demo-general-1", ProviderID: "naupegos://demo/demo-general-1", Exists: true, Runs: true},
			{Name: "demo-general-2", ProviderID: "naupegos://demo/demo-general-2"},
			{Name: "demo-general-3", ProviderID: "naupegos://demo/demo-general-3", Problem: "no quota"},
			{Name: "demo-general-4", ProviderID: "naupegos://demo/demo-general-4", Exists: true, Runs: true, Leaves: true},
		},
		Shape: &scaling.Shape{
			Capacity: map[string]string{"cpu": "2", "memory": "4Gi"}, Allocatable: map[string]string{"cpu": "1900m"},
			Labels: map[string]string{"disk": "ssd"}, Taints: []v1alpha1.Taint{{Key: "gpu", Effect: "NoSchedule"}},
		},
	}
}

// TestProtocol makes all calls that an autoscaler makes.
func TestProtocol(t *testing.T) {
	p := &pools{all: []scaling.Pool{general(), {Name: "empty", Max: 2}}}
	ca, dial := served(t, p)
	c := dial(ca.Certificate(pki.LeafSpec{CommonName: "the autoscaler", Client: true}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups := testkit.Value(c.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{}))(t).GetNodeGroups()
	if len(groups) != 2 || groups[0].GetId() != "general" || groups[0].GetMinSize() != 1 || groups[0].GetMaxSize() != 5 || groups[1].GetMaxSize() != 2 {
		t.Errorf("groups: %v", groups)
	}
	if n := testkit.Value(c.NodeGroupTargetSize(ctx, &externalgrpc.NodeGroupTargetSizeRequest{Id: "general"}))(t).GetTargetSize(); n != 3 {
		t.Errorf("the target is %d", n)
	}
	for name, want := range map[*externalgrpc.ExternalGrpcNode]string{
		{Name: "demo-general-1"}: "general",
		{Name: "demo-general-1", ProviderID: "naupegos://demo/demo-general-1"}:  "general",
		{Name: "naupegos://demo/demo-general-2"}:                                "general", // not a node yet
		{Name: "demo-general-1", ProviderID: "naupegos://other/demo-general-1"}: "",
		{Name: "demo-cp-1"}: "",
	} {
		if got := testkit.Value(c.NodeGroupForNode(ctx, &externalgrpc.NodeGroupForNodeRequest{Node: name}))(t).GetNodeGroup().GetId(); got != want {
			t.Errorf("%v is of %q, want %q", name, got, want)
		}
	}
	var states []string
	for _, i := range testkit.Value(c.NodeGroupNodes(ctx, &externalgrpc.NodeGroupNodesRequest{Id: "general"}))(t).GetInstances() {
		states = append(states, i.GetStatus().GetInstanceState().String()+i.GetStatus().GetErrorInfo().GetErrorMessage())
	}
	if want := []string{"instanceRunning", "instanceCreating", "instanceCreatingno quota", "instanceDeleting"}; !slices.Equal(states, want) {
		t.Errorf("instances are %v, want %v", states, want)
	}
	info := testkit.Value(c.NodeGroupTemplateNodeInfo(ctx, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: "general"}))(t)
	var n corev1.Node
	testkit.Must(t, n.Unmarshal(info.GetNodeBytes()))
	if n.Status.Capacity.Memory().String() != "4Gi" || n.Status.Allocatable.Cpu().String() != "1900m" || n.Labels["disk"] != "ssd" || len(n.Spec.Taints) != 1 {
		t.Errorf("a new node would be %v", n)
	}
	if _, err := c.NodeGroupTemplateNodeInfo(ctx, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: "empty"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a pool that never had a node: %v", err)
	}
	testkit.Value(c.Refresh(ctx, &externalgrpc.RefreshRequest{}))(t)
	testkit.Value(c.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "general", Delta: 1}))(t)
	testkit.Value(c.NodeGroupDecreaseTargetSize(ctx, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: "general", Delta: -1}))(t)
	gone := []*externalgrpc.ExternalGrpcNode{{Name: "demo-general-1"}, {Name: "naupegos://demo/demo-general-3"}, {Name: "demo-general-1"}}
	testkit.Value(c.NodeGroupDeleteNodes(ctx, &externalgrpc.NodeGroupDeleteNodesRequest{Id: "general", Nodes: gone}))(t)
	if want := []string{"refresh", "grow general", "forgo general", "remove general", "demo-general-1", "demo-general-3"}; !slices.Equal(p.done, want) {
		t.Errorf("done: %q, want %q", p.done, want)
	}
}

// TestRefusedCalls: invalid requests change nothing, and failures are reported with the code of their kind, so that the autoscaler retries.
func TestRefusedCalls(t *testing.T) {
	p := &pools{all: []scaling.Pool{general()}}
	ca, dial := served(t, p)
	c := dial(ca.Certificate(pki.LeafSpec{CommonName: "the autoscaler", Client: true}))
	code := func(_ any, err error) codes.Code { return status.Code(err) }
	for name, got := range map[string][2]codes.Code{
		"grows by nothing":    {code(c.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "general"})), codes.InvalidArgument},
		"shrinks by a growth": {code(c.NodeGroupDecreaseTargetSize(t.Context(), &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: "general", Delta: 1})), codes.InvalidArgument},
		"no such pool":        {code(c.NodeGroupTargetSize(t.Context(), &externalgrpc.NodeGroupTargetSizeRequest{Id: "other"})), codes.NotFound},
		"another pool's":      {code(c.NodeGroupDeleteNodes(t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: "general", Nodes: []*externalgrpc.ExternalGrpcNode{{Name: "demo-general-1"}, {Name: "demo-cp-1"}}})), codes.InvalidArgument},
		"an unknown pool's":   {code(c.NodeGroupDeleteNodes(t.Context(), &externalgrpc.NodeGroupDeleteNodesRequest{Id: "other", Nodes: []*externalgrpc.ExternalGrpcNode{{Name: "demo-general-1"}}})), codes.NotFound},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}
	if p.done != nil {
		t.Errorf("and yet: %q", p.done)
	}
	for kind, want := range map[fail.Kind]codes.Code{
		fail.Conflict: codes.Unavailable, fail.Unreachable: codes.Unavailable, fail.Refused: codes.FailedPrecondition, fail.Internal: codes.Internal,
	} {
		p.err = fail.New(kind, "not now")
		if got := code(c.NodeGroupIncreaseSize(t.Context(), &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "general", Delta: 1})); got != want {
			t.Errorf("%v: %v, want %v", kind, got, want)
		}
	}
}

// TestStrangers: the server admits only the autoscaler, and no other holder of a certificate of the cluster.
func TestStrangers(t *testing.T) {
	p := &pools{}
	ca, dial := served(t, p)
	for name, certs := range map[string][]tls.Certificate{
		"no certificate":         nil,
		"another client":         {ca.Certificate(pki.LeafSpec{CommonName: "system:node:demo-cp-1", Client: true})},
		"another authority":      {pkitest.NewAuthority(t).Certificate(pki.LeafSpec{CommonName: "the autoscaler", Client: true})},
		"a server's certificate": {ca.Certificate(pki.LeafSpec{CommonName: "the autoscaler", Server: true})},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := dial(certs...).Refresh(ctx, &externalgrpc.RefreshRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	if p.done != nil {
		t.Errorf("a stranger was let in: %q", p.done)
	}
}

// hanging implements Pools with a Refresh that returns only after its context has ended.
type hanging struct {
	pools
	asked chan struct{}
}

func (h *hanging) Refresh(ctx context.Context) error {
	close(h.asked)
	<-ctx.Done()
	return ctx.Err()
}

// TestStop: a stop waits neither for calls that don't end nor for a client that connects and stays silent.
func TestStop(t *testing.T) {
	h := &hanging{asked: make(chan struct{})}
	ca := pkitest.NewAuthority(t)
	own := ca.Issue(pki.LeafSpec{CommonName: "server", Server: true, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	l := testkit.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, h, func() (Identity, error) {
			return Identity{Cert: own.CertPEM, Key: own.KeyPEM, CA: ca.PEM(), Client: "the autoscaler"}, nil
		}, 100*time.Millisecond)
	}()
	c := testkit.Value(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Certificate(pki.LeafSpec{CommonName: "the autoscaler", Client: true})},
	}))))(t)
	defer c.Close()
	called := make(chan error, 1)
	go func() {
		_, err := externalgrpc.NewCloudProviderClient(c).Refresh(t.Context(), &externalgrpc.RefreshRequest{})
		called <- err
	}()
	<-h.asked
	silent := testkit.Value((&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	defer silent.Close()
	stop()
	select {
	case err := <-ended:
		testkit.Must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if err := <-called; status.Code(err) == codes.OK {
		t.Error("what was cut off went well")
	}
}
