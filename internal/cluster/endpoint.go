package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

const etcdPort = "2379"

// etcdTime bounds a request to etcd, observeTime an observation of an API or etcd that may not answer: timeouts.connect raises both for slow hosts.
func etcdTime(doc *v1alpha1.Cluster) time.Duration {
	return max(8*time.Second, doc.Spec.Timeouts.Connect.Duration)
}
func observeTime(doc *v1alpha1.Cluster) time.Duration { return max(20*time.Second, 2*etcdTime(doc)) }

// endpoint returns host:port of the API as the machines reach it.
func (c *Cluster) endpoint(ctx context.Context) (string, error) {
	e := c.doc.Spec.Endpoint
	switch e.Kind {
	case v1alpha1.EndpointAddress:
		host, port := e.AddressHostPort()
		return net.JoinHostPort(host, strconv.Itoa(port)), nil
	case v1alpha1.EndpointDirect:
		return c.directEndpoint(ctx)
	}
	vip, err := c.vip(ctx)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(vip, strconv.Itoa(e.Port)), nil
}

// vip returns the virtual address; fail.NotReady while it is not made yet.
func (c *Cluster) vip(ctx context.Context) (string, error) {
	if err := c.loadTarget(ctx); err != nil { // a provider knows what it has looked at
		return "", err
	}
	vip, err := c.prov.VIP(ctx)
	if fail.KindOf(err) == fail.NotFound {
		return "", fail.Wrap(fail.NotReady, err, "learn the virtual address")
	}
	return vip, err
}

// outerEndpoint returns host:port of the API as people and other clients outside of the machines' network reach it.
// fail.NotReady while an address that it is to have is not made yet.
func (c *Cluster) outerEndpoint(ctx context.Context) (string, error) {
	inner, err := c.endpoint(ctx)
	if err != nil || !c.prov.Traits().Outside {
		return inner, err
	}
	host, err := c.outerAddress(ctx)
	if err != nil || host == "" {
		return inner, err
	}
	return net.JoinHostPort(host, strconv.Itoa(c.doc.Spec.Endpoint.Port)), nil
}

// outerAddress returns the floating IP in front of the API; empty where the document wants none.
func (c *Cluster) outerAddress(ctx context.Context) (string, error) {
	switch e := c.doc.Spec.Endpoint; {
	case e.Kind == v1alpha1.EndpointDirect:
		m, err := c.prov.Machine(ctx, c.namesOf(provider.ControlPlane)[0])
		if shape := c.doc.Shape(v1alpha1.RoleControlPlane, ""); err == nil && m.Public == "" && shape.FloatingIP != nil && *shape.FloatingIP {
			err = fail.New(fail.NotReady, "the floating IP of %s is not known yet", m.Name)
		}
		return m.Public, err
	case e.Kind == v1alpha1.EndpointAddress, e.Octavia != nil && e.Octavia.Internal:
		return "", nil
	}
	f, ok := c.prov.(provider.Fronted)
	if !ok {
		return "", nil
	}
	if own := c.doc.Spec.Endpoint.FloatingIP; own != "" { // known before it leads there
		return own, nil
	}
	host, err := f.PublicVIP(ctx)
	if fail.KindOf(err) == fail.NotFound {
		err = fail.Wrap(fail.NotReady, err, "learn the API's floating IP")
	}
	return host, err
}

// outerNames lists what the API is called outside of the machines' network, beyond the endpoint itself. An address that a cluster that
// is up does not have yet is left out until it has it: the machines can be compared with all else that they are to be.
func (c *Cluster) outerNames(ctx context.Context) ([]string, error) {
	names := c.facts.APIServerNames(c.doc.Spec.Endpoint.DNSName)
	inner, err := c.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	outer, err := c.outerEndpoint(ctx)
	if fail.KindOf(err) == fail.NotReady && c.facts.Bootstrapped() {
		return names, nil
	}
	if err != nil || outer == inner {
		return names, err
	}
	host, _, err := net.SplitHostPort(outer)
	return append(names, host), err
}

// publicEndpoint returns host:port of the API as people are told it: by its name, where it has one. Naupegos itself does not wait for
// somebody to make a record of that name.
func (c *Cluster) publicEndpoint(ctx context.Context) (string, error) {
	outer, err := c.outerEndpoint(ctx)
	if name := c.doc.Spec.Endpoint.DNSName; err == nil && name != "" {
		return net.JoinHostPort(name, strconv.Itoa(c.doc.Spec.Endpoint.Port)), nil
	}
	return outer, err
}

// directEndpoint is the single control-plane machine itself.
func (c *Cluster) directEndpoint(ctx context.Context) (string, error) {
	if err := c.loadTarget(ctx); err != nil {
		return "", err
	}
	names := c.namesOf(provider.ControlPlane)
	if len(names) == 0 {
		return "", fail.New(fail.NotFound, "the cluster has no control-plane machine")
	}
	m, err := c.prov.Machine(ctx, names[0])
	if err != nil {
		return "", err
	}
	if m.Address == "" {
		return "", fail.New(fail.NotReady, "the address of %s is not known yet", m.Name)
	}
	return net.JoinHostPort(m.Address, strconv.Itoa(apiPort)), nil
}

// Kube returns a client of the Kubernetes API. It is made once the machines' own endpoint is known, by which it calls the API: that is
// in every certificate, also while the address that leads there from outside is another one than before.
func (c *Cluster) Kube(ctx context.Context) (*kube.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api != nil {
		return c.api, nil
	}
	endpoint, err := c.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	conf, err := c.adminKubeconfig(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	c.api, err = kube.NewClient(conf, kube.ClientOptions{Dial: c.dialAPI})
	return c.api, err
}

// Kubeconfig renders the administrator's kubeconfig.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	endpoint, err := c.publicEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	return c.adminKubeconfig(ctx, endpoint)
}

// UserKubeconfig returns a kubeconfig of one user with a new certificate that is valid for so long; see layout.Params.UserKubeconfig.
func (c *Cluster) UserKubeconfig(ctx context.Context, user string, groups []string, validity time.Duration) ([]byte, error) {
	endpoint, err := c.publicEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	return layout.Params{ClusterName: c.Name()}.UserKubeconfig(ctx, c.pki, endpoint, user, groups, validity)
}

func (c *Cluster) adminKubeconfig(ctx context.Context, endpoint string) ([]byte, error) {
	return layout.Params{ClusterName: c.Name()}.AdminKubeconfig(ctx, c.pki, endpoint)
}

// dialAPI reaches the endpoint from outside, where it has an address for that, and where this fails through a control-plane machine.
func (c *Cluster) dialAPI(ctx context.Context, network, addr string) (net.Conn, error) {
	outer, err := c.outerEndpoint(ctx)
	if err != nil { // not yet
		outer = addr
	}
	conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, outer)
	if err == nil {
		return conn, nil
	}
	for _, name := range c.namesOf(provider.ControlPlane) {
		h, hostErr := c.Host(ctx, name)
		if hostErr != nil {
			continue // the direct error says more; another machine may do
		}
		if conn, tunnelErr := c.dialer.DialContext(ctx, h, network, addr); tunnelErr == nil {
			return conn, nil
		}
	}
	return nil, fail.Wrap(fail.Unreachable, err, "reach the Kubernetes API at %s", outer)
}

// etcdClient connects to the members on the wanted control-plane machines that run, each through its own machine.
func (c *Cluster) etcdClient(ctx context.Context, o *Observed) (*etcd.Client, error) {
	byAddr := map[string]string{}
	var ends []etcd.Endpoint
	for _, m := range o.Inventory.Machines {
		if m.Role != provider.ControlPlane || !m.MayRun() {
			continue
		}
		addr := net.JoinHostPort(m.Address, etcdPort)
		byAddr[addr] = m.Name
		ends = append(ends, etcd.Endpoint{Name: m.Name, URL: "https://" + addr})
	}
	if len(ends) == 0 {
		return nil, fail.New(fail.Unreachable, "no control-plane machine is running")
	}
	tlsConfig, err := c.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		name, ok := byAddr[addr]
		if !ok {
			return nil, fail.New(fail.Internal, "etcd client asked for %s, which is not a member's address", addr)
		}
		h, err := c.Host(ctx, name)
		if err != nil {
			return nil, err
		}
		return c.dialer.DialContext(ctx, h, "tcp", addr)
	}
	pause := func(ctx context.Context) func() {
		var hosts []remote.Host
		for _, e := range ends {
			if h, err := c.Host(ctx, e.Name); err == nil { // who can't be reached goes on
				hosts = append(hosts, h)
			}
		}
		return c.dialer.Pause(ctx, hosts, "kube-apiserver")
	}
	return etcd.Connect(ctx, etcd.Options{Endpoints: ends, TLS: tlsConfig, Dial: dial, Timeout: etcdTime(c.doc), Quiet: pause})
}

// peerURL is where a control-plane machine's etcd member talks to the others.
func peerURL(address string) string { return fmt.Sprintf("https://%s:2380", address) }

// etcdTLS is how Naupegos itself identifies to etcd: a client certificate of its own.
func (c *Cluster) etcdTLS(ctx context.Context) (*tls.Config, error) {
	pair, err := c.pki.Leaf(ctx, pki.LeafSpec{Name: "naupegos/etcd-client", Authority: pki.EtcdCA, CommonName: "naupegos", Client: true})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "load the etcd client certificate")
	}
	ca, err := c.pki.CABundle(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fail.New(fail.Internal, "the etcd authority's certificate can't be read")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// planBalance has the provider's own load balancer, where the API is behind one, follow the machines once the API answers. It does not wait
// for those that restart: they wait for it, so that others serve meanwhile.
func (a *applying) planBalance() (ids []string, err error) {
	balancer, ok := a.prov.(provider.Balancer)
	if !ok {
		return nil, nil
	}
	want, err := a.wantedMachines(wanted.Own(a.o.Want))
	if err != nil {
		return nil, err
	}
	for _, s := range balancer.Balance(want, a.o.Inventory) {
		a.add(stageBalance, s, plan.IfPlanned(apiStep)...)
		ids = append(ids, s.ID)
	}
	return ids, nil
}

// gatewayGate lets what follows begin only when this gateway passes on the API, and the API answers through the endpoint.
func (c *Cluster) gatewayGate(name string) *plan.Step {
	return &plan.Step{
		ID: healthID(name), Action: plan.Wait, Subject: name, Title: "wait until " + name + " reaches the API", Reason: "one gateway at a time",
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until HAProxy on %s reaches an API server", name)
			if err := c.checkGateway(ctx, name); err != nil {
				return err
			}
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for %s/readyz", client.Server())
			return client.WaitReady(ctx)
		},
	}
}

// checkGateway asks a gateway whether its HAProxy reaches an API server.
func (c *Cluster) checkGateway(ctx context.Context, name string) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.dialer.Agent(ctx, h, nil, "gateway-check", "--url", gateway.Params{}.HealthURL())
	}
	return err
}
