package openstack

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// testKey is a public key whose private half was discarded.
var testKey = func() string {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		panic(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}()

// counter counts the calls that a provider makes.
type counter struct {
	next http.RoundTripper
	n    atomic.Int64
	mu   sync.Mutex
	seen []string
}

// RoundTrip counts and passes on.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.URL.Path)
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

// testDocument is a defaulted document; the name of its cluster begins with "t3-".
func testDocument(t testing.TB, name, spec string) *v1alpha1.Cluster {
	t.Helper()
	doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n" + spec
	c, err := validation.Parse("test.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const smallSpec = `  provider:
    openstack:
      externalNetwork: public
      trustOnFirstUse: true
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 1}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, machine: {floatingIP: true}}
  workers:
    - {name: w, replicas: 1}
`

// testProvider returns a new provider of a cluster, as a new run of the command has one, and the calls it makes.
func testProvider(t testing.TB, doc *v1alpha1.Cluster, id string, change ...func(*Options)) (*Provider, *counter) {
	t.Helper()
	calls := &counter{next: http.DefaultTransport}
	o := Options{
		Cluster: doc, ClusterID: id, PublicKey: strings.TrimSpace(testKey), Calls: cloud.Calls{HTTPClient: &http.Client{Transport: calls}},
		Timeouts: Timeouts{Console: time.Nanosecond, Poll: 500 * time.Millisecond, Step: 10 * time.Minute, Boot: 15 * time.Minute, Delete: 10 * time.Minute},
	}
	for _, f := range change {
		f(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p, calls
}

// wanted returns the document's wanted resources.
func wanted(c *v1alpha1.Cluster) provider.Wanted {
	w := provider.Wanted{VIP: c.GatewayCount() > 0}
	for _, m := range c.Machines() {
		w.Machines = append(w.Machines, provider.MachineSpec{
			Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index,
			UserData: []byte("#cloud-config\nhostname: " + m.Name + "\n"),
		})
	}
	return w
}

// execute runs steps.
func execute(ctx context.Context, verb string, steps []*plan.Step) error {
	return executeWith(ctx, verb, steps, 100*time.Millisecond)
}

// executeWith runs steps with the first pause between attempts, and the user's consents.
func executeWith(ctx context.Context, verb string, steps []*plan.Step, pause time.Duration, consents ...string) error {
	_, err := plan.Execute(ctx, &plan.Plan{Verb: verb, Cluster: "test", Steps: steps},
		plan.Options{Parallel: 64, RetryInterval: pause, Consents: consents})
	return err
}

// apply brings a cluster about.
func apply(ctx context.Context, p *Provider) error { return applyWith(ctx, p) }

func applyWith(ctx context.Context, p *Provider, consents ...string) error {
	inv, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	steps, err := p.Steps(ctx, wanted(p.opts.Cluster), inv)
	if err != nil {
		return err
	}
	return executeWith(ctx, "apply", steps, p.opts.Timeouts.Poll, consents...)
}

// destroy removes a cluster.
func destroy(ctx context.Context, p *Provider) error {
	inv, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	return executeWith(ctx, "destroy", p.Destroy(ctx, inv), p.opts.Timeouts.Poll)
}

// clean destroys the remains of a failed test.
func clean(t *testing.T, doc *v1alpha1.Cluster, id string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		p, _ := testProvider(t, doc, id)
		if err := destroy(ctx, p); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// nothingToDo checks that a new run finds everything as wanted.
func nothingToDo(ctx context.Context, t *testing.T, doc *v1alpha1.Cluster, id string) (*provider.Inventory, int64, time.Duration) {
	t.Helper()
	p, calls := testProvider(t, doc, id)
	began := time.Now()
	inv, err := p.Observe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	steps, err := p.Steps(t.Context(), wanted(doc), inv)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		t.Errorf("there is still to do: %s: %s (%s) %v", s.ID, s.Title, s.Reason, s.Details)
	}
	return inv, calls.n.Load(), took
}

// isEmpty checks that nothing of a cluster is left.
func isEmpty(ctx context.Context, t *testing.T, doc *v1alpha1.Cluster, id string) {
	t.Helper()
	p, _ := testProvider(t, doc, id)
	inv, err := p.Observe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Machines)+len(inv.Others) > 0 || len(p.left()) > 0 {
		t.Fatalf("left: %v %v %v", inv.Machines, inv.Others, p.left())
	}
}

func describe(inv *provider.Inventory) string {
	var b strings.Builder
	for _, m := range inv.Machines {
		fmt.Fprintf(&b, "  %s %s %s public=%q zone=%s id=%s %s %s\n", m.Name, m.Role, m.Address, m.Public, m.Zone, m.ID, m.State, m.Detail)
	}
	for _, o := range inv.Others {
		fmt.Fprintf(&b, "  %s\n", o)
	}
	return b.String()
}

func keepIf[T any](all []T, fits func(T) bool) []T {
	return slices.DeleteFunc(all, func(t T) bool { return !fits(t) })
}
