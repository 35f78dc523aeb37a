package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack"
)

// naupegos is the provider's side, called as `naupegos apply` and `naupegos destroy` call it. Like these commands, it begins every phase without
// state: it logs in and observes.
type naupegos struct {
	size  size
	proxy string
	times io.Writer // gets the times of the steps; nil: discarded
}

func (n naupegos) name() string { return "naupegos" }

// knownKeys returns a host key for every server. Servers do not boot here, so no console contains one.
type knownKeys struct{}

// Get returns the same host key for every server.
func (knownKeys) Get(string) []string { return []string{publicKey} }

// Set does nothing.
func (knownKeys) Set(context.Context, string, []string) error { return nil }

func (n naupegos) open() (*openstack.Provider, provider.Wanted, error) {
	var want provider.Wanted
	doc, err := n.size.document()
	if err != nil {
		return nil, want, err
	}
	if want.Machines, err = n.size.machines(); err != nil {
		return nil, want, err
	}
	through, err := url.Parse(n.proxy)
	if err != nil {
		return nil, want, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it always is one
	transport.Proxy = http.ProxyURL(through)
	p, err := openstack.New(openstack.Options{
		Cluster: doc, ClusterID: clusterID, PublicKey: publicKey, HostKeys: knownKeys{}, Calls: openstack.Calls{HTTPClient: &http.Client{Transport: transport}},
	})
	return p, want, err
}

// steps compares the wanted state with the cloud's, as every apply does.
func (n naupegos) steps(ctx context.Context) ([]*plan.Step, error) {
	p, want, err := n.open()
	if err != nil {
		return nil, err
	}
	seen, err := p.Observe(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := p.Steps(ctx, want, seen)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		if err := p.Preflight(ctx, want); err != nil {
			return nil, err
		}
	}
	var all []string
	for _, s := range steps {
		all = append(all, s.ID)
	}
	for _, s := range p.Balance(want, seen) { // an apply does this once the API answers
		s.Needs = append(s.Needs, all...)
		steps = append(steps, s)
	}
	return steps, nil
}

func (n naupegos) create(ctx context.Context) error {
	steps, err := n.steps(ctx)
	if err != nil {
		return err
	}
	return n.execute(ctx, "apply", steps)
}

func (n naupegos) nothing(ctx context.Context) error {
	steps, err := n.steps(ctx)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return nil
	}
	var what []string
	for _, s := range steps {
		what = append(what, fmt.Sprintf("%s (%s; %s)", s.ID, s.Reason, strings.Join(s.Details, ", ")))
	}
	return fmt.Errorf("a second run wants to change something: %s", strings.Join(what, "; "))
}

func (n naupegos) destroy(ctx context.Context) error {
	p, _, err := n.open()
	if err != nil {
		return err
	}
	seen, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	return n.execute(ctx, "destroy", p.Destroy(ctx, seen))
}

func (n naupegos) execute(ctx context.Context, verb string, steps []*plan.Step) error {
	r, err := plan.Execute(ctx, &plan.Plan{Verb: verb, Cluster: clusterName, Steps: steps}, plan.Options{})
	if r == nil || n.times == nil {
		return err
	}
	for _, s := range r.Steps {
		if !s.Started.IsZero() {
			fmt.Fprintf(n.times, "  %6.1f s to %6.1f s  %s\n", s.Started.Sub(r.Started).Seconds(), s.Ended.Sub(r.Started).Seconds(), s.ID)
		}
	}
	return err
}
