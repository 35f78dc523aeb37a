package addons

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// Proof is the result of one test on a running cluster.
type Proof struct {
	Name    string  `json:"name"`              // "api", "gateway/demo-gw-1", "dns", "service", "cloud"
	Title   string  `json:"title"`             // the tested function, in words
	Passed  bool    `json:"passed"`            // the test passed
	Detail  string  `json:"detail,omitempty"`  // the request and where it was sent from
	Failure string  `json:"failure,omitempty"` // why it failed, and what to do
	Seconds float64 `json:"seconds"`           // duration
}

// PlanTest returns a plan of one step that runs Prove. made receives the results; a failed proof does not fail the step.
func (c *Addons) PlanTest(limit time.Duration, made func([]Proof)) (*plan.Plan, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	return &plan.Plan{Verb: "test", Cluster: c.Name(), Steps: []*plan.Step{{
		ID: "test", Action: plan.Wait, Subject: "cluster", Title: "test the cluster", Reason: "as requested", Timeout: testTimeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			proofs, err := c.Prove(ctx, limit, p, func(one Proof) {
				is := "passed"
				if !one.Passed {
					is = "failed"
				}
				p.Status("%s: %s", one.Title, is)
			})
			if err == nil {
				made(proofs)
			}
			return err
		},
	}}}, nil
}

// testTimeout limits the whole test.
const testTimeout = time.Hour

// nodePortNodes limits the number of nodes on which a NodePort is tested.
const nodePortNodes = 5

// Prove tests the functions of a cluster one by one: the API through the endpoint and every gateway, cluster DNS, a Service by address, by name and
// by node ports, and in a cloud its load balancers and volumes. It leaves nothing behind. limit bounds each proof; 0 means the usual time. tell
// receives each proof as soon as it is complete. Prove returns an error only if it could not start.
func (c *Addons) Prove(ctx context.Context, limit time.Duration, p plan.Progress, tell func(Proof)) ([]Proof, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	if c.Current == nil {
		return nil, fail.New(fail.NotFound, "the bundle of Kubernetes %s, which names the test's image, is not on this machine", c.Doc.Spec.Kubernetes.Version).
			Do("naupegos bundle build --kubernetes %s", c.Doc.Spec.Kubernetes.Version)
	}
	if err := c.LoadTarget(ctx); err != nil {
		return nil, err
	}
	var out []Proof
	try := func(name, title string, timeout time.Duration, run func(context.Context) (string, error)) bool {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, cmp.Or(limit, timeout))
		defer cancel()
		detail, err := run(bounded)
		proof := Proof{Name: name, Title: title, Passed: err == nil, Detail: detail, Seconds: time.Since(began).Round(time.Millisecond).Seconds()}
		if err != nil {
			proof.Failure = err.Error()
		}
		out = append(out, proof)
		tell(proof)
		return err == nil
	}
	up := try("api", "the API answers through the endpoint", env.ObserveTime(c.Doc), c.proveAPI)
	for _, name := range c.NamesOf(provider.Gateway) {
		try("gateway/"+name, "the API answers through gateway "+name, env.ObserveTime(c.Doc), func(ctx context.Context) (string, error) {
			return "", c.CheckGateway(ctx, name)
		})
	}
	if !up { // nothing else can be tested
		return out, ctx.Err()
	}
	try("dns", "cluster DNS is available", time.Minute, c.proveDNS)
	try("service", "a Service answers by IP address, by DNS name and by NodePort", SmokeTime(c.Doc), func(ctx context.Context) (string, error) {
		return c.proveService(ctx, p)
	})
	for _, a := range addon.Site(c.Doc) {
		try("addon/"+a.Name, a.Title+": works", SiteTime(c.Doc), func(ctx context.Context) (string, error) { return c.siteWorks(ctx, a, p) })
	}
	if cloud := c.Cloud(); cloud != nil && (cloud.NoBalancing() == "" || cloud.NoVolumes() == "") {
		try("cloud", "the cloud provides load balancers and volumes", CloudSmokeTime(c.Doc), func(ctx context.Context) (string, error) {
			return c.CloudSmoke(ctx, p)
		})
	}
	return out, ctx.Err()
}

func (c *Addons) proveAPI(ctx context.Context) (string, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	return client.Server(), client.WaitReady(ctx)
}

func (c *Addons) proveDNS(ctx context.Context) (string, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	if err := client.WaitDeployment(ctx, "kube-system", "coredns"); err != nil {
		return "", err
	}
	n, err := client.ReadyEndpoints(ctx, "kube-system", "kube-dns")
	if err == nil && n == 0 {
		err = fail.New(fail.NotReady, "Service kube-system/kube-dns has no ready endpoint").Do("look at Deployment kube-system/coredns: was it scaled to 0?")
	}
	return words.Count(n, "endpoint", "endpoints"), err
}

func (c *Addons) proveService(ctx context.Context, p plan.Progress) (string, error) {
	if c.Doc.WorkerCount() == 0 && !c.Doc.Spec.ControlPlane.Schedulable {
		return "", fail.New(fail.Refused, "no node takes ordinary pods").Do("add workers, or set spec.controlPlane.schedulable")
	}
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return "", err
	}
	r, err := client.Smoke(ctx, kube.SmokeOptions{
		Image: img.Ref, DNSDomain: c.Doc.Spec.Kubernetes.DNSDomain, NodePorts: nodePortNodes, Timeout: SmokeTime(c.Doc), Status: p.Status,
	})
	if err != nil {
		return "", err
	}
	var ports []string
	for _, n := range r.NodePorts {
		ports = append(ports, n.Node)
	}
	slices.Sort(ports)
	return fmt.Sprintf("from %s to %s; NodePort of %s", r.Client, strings.Join(r.Backends, ", "), strings.Join(ports, ", ")), nil
}

// notAsked is askBalancer's result for a load balancer that could not be reached from anywhere.
const notAsked = "nowhere: its address can't be reached from here, and there is no gateway"

// reachTimeout is how long to wait for the first connection to a load balancer's address, which has only just been assigned.
const reachTimeout = 20 * time.Second

const askTimeout = 3 * time.Second // for one request

// askBalancer sends requests to a load balancer from the local host and from the gateways until one is answered, and returns where that request was
// sent from. Other machines are no use, because their kube-proxy answers in the load balancer's place. If no connection succeeds and the cluster has
// no gateway, which would be in the same network, it returns notAsked.
func (c *Addons) askBalancer(ctx context.Context, address, answer string) (string, error) {
	places := []place{{"here", c.DialTold}}
	for _, name := range c.NamesOf(provider.Gateway) {
		places = append(places, place{name, func(ctx context.Context, network, addr string) (net.Conn, error) {
			h, err := c.Host(ctx, name)
			if err != nil {
				return nil, err
			}
			return c.Dialer.DialContext(ctx, h, network, addr)
		}})
	}
	return ask(ctx, places, reachTimeout, address, answer)
}

// place is an origin of test requests.
type place struct {
	name string
	dial dial
}

type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// ask sends a request from each place in turn until one is answered or ctx ends. If there is only one place, it gives up and returns notAsked once
// reach has passed without a connection.
func ask(ctx context.Context, places []place, reach time.Duration, address, answer string) (string, error) {
	connected := false
	for began := time.Now(); ; {
		var failed []string
		for _, p := range places {
			err := askOnce(ctx, func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := p.dial(ctx, network, addr)
				connected = connected || err == nil
				return conn, err
			}, address, answer)
			if err == nil {
				return p.name, nil
			}
			failed = append(failed, "from "+p.name+": "+err.Error())
		}
		if !connected && len(places) == 1 && time.Since(began) > reach {
			return notAsked, nil
		}
		select {
		case <-ctx.Done():
			return "", fail.New(fail.NotReady, "no request to %s was answered; %s", address, strings.Join(failed, "; "))
		case <-time.After(time.Second):
		}
	}
}

// askOnce sends one request on a new connection.
func askOnce(ctx context.Context, d dial, address, answer string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "http", Host: strings.TrimSuffix(net.JoinHostPort(address, "80"), ":80"), Path: "/"}).String(), nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DialContext: d, DisableKeepAlives: true}, // without a proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the cluster could lead it anywhere
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read only
	body, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != answer {
		return fmt.Errorf("it answers %s, and not as the pod behind it", resp.Status) // its body may belong to another service
	}
	return nil
}

// CheckSteps returns steps that wait until the user's own checks hold; none without checks.
func (c *Addons) CheckSteps(name string) []*plan.Step {
	if len(c.Doc.Spec.Updates.Checks) == 0 {
		return nil
	}
	return []*plan.Step{{
		ID: "checks/" + name, Action: plan.Wait, Subject: name, Title: "wait until the checks of spec.updates pass",
		Reason: "the next machine is changed only when they pass",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			for _, k := range c.Doc.Spec.Updates.Checks {
				p.Status("evaluating check %s", k.Name)
				if err := client.Holds(ctx, kube.Check(k)); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}
