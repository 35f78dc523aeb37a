package connect

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/provider"
)

// Endpoint returns host:port of the API as the machines reach it.
func (c *Conn) Endpoint(ctx context.Context) (string, error) {
	e := c.Doc.Spec.Endpoint
	switch e.Kind {
	case v1alpha1.EndpointAddress:
		host, port := e.AddressHostPort()
		return net.JoinHostPort(host, strconv.Itoa(port)), nil
	case v1alpha1.EndpointDirect:
		return c.directEndpoint(ctx)
	}
	vip, err := c.VIP(ctx)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(vip, strconv.Itoa(e.Port)), nil
}

// VIP returns the virtual address; fail.NotReady while it is not made yet.
func (c *Conn) VIP(ctx context.Context) (string, error) {
	if err := c.LoadTarget(ctx); err != nil { // the provider answers from its last observation
		return "", err
	}
	vip, err := c.Prov.VIP(ctx)
	if fail.KindOf(err) == fail.NotFound {
		return "", fail.Wrap(fail.NotReady, err, "learn the virtual address")
	}
	return vip, err
}

// outerEndpoint returns host:port of the API as people and other clients outside of the machines' network reach it.
// fail.NotReady while an address that it is to have is not made yet.
func (c *Conn) outerEndpoint(ctx context.Context) (string, error) {
	inner, err := c.Endpoint(ctx)
	if err != nil || !c.Prov.Traits().Outside {
		return inner, err
	}
	host, err := c.outerAddress(ctx)
	if err != nil || host == "" {
		return inner, err
	}
	return net.JoinHostPort(host, strconv.Itoa(c.Doc.Spec.Endpoint.Port)), nil
}

// outerAddress returns the floating IP in front of the API; empty if the document does not want one.
func (c *Conn) outerAddress(ctx context.Context) (string, error) {
	switch e := c.Doc.Spec.Endpoint; {
	case e.Kind == v1alpha1.EndpointDirect:
		m, err := c.Prov.Machine(ctx, c.NamesOf(provider.ControlPlane)[0])
		if shape := c.Doc.Shape(v1alpha1.RoleControlPlane, ""); err == nil && m.Public == "" && shape.FloatingIP != nil && *shape.FloatingIP {
			err = fail.New(fail.NotReady, "the floating IP of %s is not known yet", m.Name)
		}
		return m.Public, err
	case e.Kind == v1alpha1.EndpointAddress, e.Octavia != nil && e.Octavia.Internal:
		return "", nil
	}
	f, ok := c.Prov.(provider.Fronted)
	if !ok {
		return "", nil
	}
	if own := c.Doc.Spec.Endpoint.FloatingIP; own != "" { // known before it leads to the API
		return own, nil
	}
	host, err := f.PublicVIP(ctx)
	if fail.KindOf(err) == fail.NotFound {
		err = fail.Wrap(fail.NotReady, err, "learn the API's floating IP")
	}
	return host, err
}

// OuterNames lists the API's names and addresses outside of the machines' network, without the endpoint. It omits an address that a running cluster does
// not have yet, so that the rest of the machines' configuration can be compared.
func (c *Conn) OuterNames(ctx context.Context) ([]string, error) {
	names := c.Facts.APIServerNames(c.Doc.Spec.Endpoint.DNSName)
	inner, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	outer, err := c.outerEndpoint(ctx)
	if fail.KindOf(err) == fail.NotReady && c.Facts.Bootstrapped() {
		return names, nil
	}
	if err != nil || outer == inner {
		return names, err
	}
	host, _, err := net.SplitHostPort(outer)
	return append(names, host), err
}

// PublicEndpoint returns the host:port of the API for users: its name if it has one. Naupegos itself uses the address, because the record of the name
// may not exist yet.
func (c *Conn) PublicEndpoint(ctx context.Context) (string, error) {
	outer, err := c.outerEndpoint(ctx)
	if name := c.Doc.Spec.Endpoint.DNSName; err == nil && name != "" {
		return net.JoinHostPort(name, strconv.Itoa(c.Doc.Spec.Endpoint.Port)), nil
	}
	return outer, err
}

// directEndpoint is the single control-plane machine itself.
func (c *Conn) directEndpoint(ctx context.Context) (string, error) {
	if err := c.LoadTarget(ctx); err != nil {
		return "", err
	}
	names := c.NamesOf(provider.ControlPlane)
	if len(names) == 0 {
		return "", fail.New(fail.NotFound, "the cluster has no control-plane machine")
	}
	m, err := c.Prov.Machine(ctx, names[0])
	if err != nil {
		return "", err
	}
	if m.Address == "" {
		return "", fail.New(fail.NotReady, "the address of %s is not known yet", m.Name)
	}
	return net.JoinHostPort(m.Address, strconv.Itoa(APIPort)), nil
}

// Kube returns a client of the Kubernetes API. It uses the machines' own endpoint, once that is known, because every certificate contains it,
// even after the outside address has changed.
func (c *Conn) Kube(ctx context.Context) (*kube.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiClient != nil {
		return c.apiClient, nil
	}
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	conf, err := c.adminKubeconfig(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	c.apiClient, err = kube.NewClient(conf, kube.ClientOptions{Dial: c.DialAPI})
	return c.apiClient, err
}

// KubeApart returns a client like Kube's, with connections and a rate limit of its own. The caller closes it.
func (c *Conn) KubeApart(ctx context.Context) (*kube.Client, error) {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	conf, err := c.adminKubeconfig(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return kube.NewClient(conf, kube.ClientOptions{Dial: c.DialAPI})
}

// KubeAt returns a client of the API server on one control-plane machine, bypassing the endpoint. Its user needs no RBAC rule: a server that has
// just started has not loaded any and would not even report that it is not ready.
func (c *Conn) KubeAt(ctx context.Context, name string) (*kube.Client, error) {
	addr, err := c.Address(ctx, name)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(addr, strconv.Itoa(APIPort))
	conf, err := layout.Params{ClusterName: c.Name()}.SuperAdminKubeconfig(ctx, c.PKI, at)
	if err != nil {
		return nil, err
	}
	h, err := c.Host(ctx, name)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return c.Dialer.DialContext(ctx, h, network, addr)
	}
	return kube.NewClient(conf, kube.ClientOptions{Dial: dial})
}

// UseAPI makes Kube return a client. With nil, Kube makes another one, which logs in by the keys in use now.
func (c *Conn) UseAPI(client *kube.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiClient != nil {
		c.apiClient.Close()
	}
	c.apiClient = client
}

// DialAPI dials the endpoint's outer address if it has one, else the endpoint, and tunnels through a control-plane machine if that fails.
func (c *Conn) DialAPI(ctx context.Context, network, addr string) (net.Conn, error) {
	outer, err := c.outerEndpoint(ctx)
	if err != nil { // not yet
		outer = addr
	}
	conn, err := dialer(outer, c.Credentials.Closed).DialContext(ctx, network, outer)
	if err == nil {
		return conn, nil
	}
	for _, name := range c.NamesOf(provider.ControlPlane) {
		h, hostErr := c.Host(ctx, name)
		if hostErr != nil {
			continue // the direct error is more useful; another machine may work
		}
		if conn, tunnelErr := c.Dialer.DialContext(ctx, h, network, addr); tunnelErr == nil {
			return conn, nil
		}
	}
	return nil, fail.Wrap(fail.Unreachable, err, "reach the Kubernetes API at %s", outer)
}

// dialer returns a dialer for the API. On a server, it follows no name to the server itself or to a metadata service: the policy saw only the name.
func dialer(addr string, closed bool) *net.Dialer {
	d := &net.Dialer{Timeout: 3 * time.Second}
	host, _, _ := net.SplitHostPort(addr) // DialContext reports a wrong address
	if _, err := netip.ParseAddr(host); err == nil || !closed || policy.Localhost(host) {
		return d // the policy has checked it
	}
	d.Control = outward(host, "use an address of the cluster in spec.endpoint.address")
	return d
}

// outward refuses connections to the server itself or to a metadata service. do is the remedy.
func outward(host, do string) func(network, to string, _ syscall.RawConn) error {
	return func(_, to string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(to); err != nil || policy.Inner(at.Addr().Unmap()) {
			return fail.New(fail.Refused, "%s is %s, which a server's clusters may not reach", host, to).Do("%s", do)
		}
		return nil
	}
}

// DialTold dials an address that the cluster itself names, such as a load balancer's in the status of a Service. Nobody has checked it: a server connects
// neither to itself nor to a metadata service.
func (c *Conn) DialTold(ctx context.Context, network, addr string) (net.Conn, error) {
	return told(addr, c.Credentials.Closed).DialContext(ctx, network, addr)
}

func told(addr string, closed bool) *net.Dialer {
	d := &net.Dialer{}
	if closed {
		d.Control = outward(addr, "look at the cluster: its API names this address")
	}
	return d
}

// Kubeconfig renders the administrator's kubeconfig.
func (c *Conn) Kubeconfig(ctx context.Context) ([]byte, error) {
	endpoint, err := c.PublicEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	return c.adminKubeconfig(ctx, endpoint)
}

// UserKubeconfig returns a kubeconfig of one user with a new certificate that is valid for so long; see layout.Params.UserKubeconfig.
func (c *Conn) UserKubeconfig(ctx context.Context, user string, groups []string, validity time.Duration) ([]byte, error) {
	endpoint, err := c.PublicEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	return layout.Params{ClusterName: c.Name()}.UserKubeconfig(ctx, c.PKI, endpoint, user, groups, validity)
}

func (c *Conn) adminKubeconfig(ctx context.Context, endpoint string) ([]byte, error) {
	return layout.Params{ClusterName: c.Name()}.AdminKubeconfig(ctx, c.PKI, endpoint)
}
