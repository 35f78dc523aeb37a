package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack"
	"github.com/naupegos/naupegos/internal/provider/openstack/leftovers"
)

// answers is a cloud with constant answers: a body for each path.
type answers map[string]string

// RoundTrip answers a call.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusNotFound, `{"itemNotFound": {"message": "not found"}}`
	if text, ok := a[r.URL.Path]; ok {
		status, body = http.StatusOK, text
	}
	if r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	return &http.Response{StatusCode: status, Header: http.Header{"X-Subject-Token": {"token"}, "Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// inCloud returns a lab on OpenStack, whose cloud also has these volumes and load balancers.
func inCloud(t *testing.T, volumes, balancers string) (*lab, *openstack.Provider) {
	t.Helper()
	for k, v := range map[string]string{
		"OS_CLOUD": "", "OS_AUTH_URL": "http://keystone/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_ID": "project",
		"OS_USER_DOMAIN_NAME": "Default", "OS_REGION_NAME": "", "OS_INTERFACE": "", "OS_CACERT": "",
	} {
		t.Setenv(k, v)
	}
	doc, err := validation.Parse("test", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {openstack: {machine: {flavor: f, image: i}}}
  workers: [{name: a}]
`))
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for kind, path := range map[string]string{"network": "", "compute": "v2.1", "image": "", "identity": "v3", "block-storage": "v3", "load-balancer": ""} {
		const entry = `{"type": "%s", "name": "%s", "endpoints": [{"interface": "public", "url": "http://%s/%s"}]}`
		services = append(services, fmt.Sprintf(entry, kind, kind, kind, path))
	}
	l := newLab(t, doc)
	os, err := openstack.New(openstack.Options{Cluster: doc, ClusterID: "demo-00000000", Calls: openstack.Calls{HTTPClient: &http.Client{Transport: answers{
		"/v3/auth/tokens": `{"token": {"project": {"id": "project"}, "expires_at": "2099-01-01T00:00:00.000000Z", "catalog": [` +
			strings.Join(services, ",") + `]}}`,
		"/v3/volumes/detail":        `{"volumes": [` + volumes + `]}`,
		"/v2.0/lbaas/loadbalancers": `{"loadbalancers": [` + balancers + `]}`,
		"/v2.1/servers/database":    `{"server": {"id": "database"}}`,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	l.Prov = os
	return l, os
}

// TestLeftoversGoBetweenMachinesAndNetwork: machines would make them again, and the network can't go while they are in it.
func TestLeftoversGoBetweenMachinesAndNetwork(t *testing.T) {
	l, os := inCloud(t, "", "")
	nothing := func(context.Context, plan.Progress) error { return nil }
	inv := &provider.Inventory{Machines: []provider.Machine{{Name: "demo-cp-1"}, {Name: "demo-a-1"}}}
	steps, err := l.PlanLeftovers(t.Context(), os.Destroy(t.Context(), inv), []string{"destroy/demo-cp-1", "destroy/demo-a-1"}, removal.Given{}, removal.DestroyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		s.Run = nothing
	}
	p := &plan.Plan{Verb: "destroy", Cluster: "demo", Steps: steps}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	at := func(id string) *plan.Step {
		return steps[slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == id })]
	}
	left, network := at(leftovers.Step), at(provider.DestroyNetworkStep)
	if want := []string{"destroy/demo-cp-1", "destroy/demo-a-1"}; !slices.Equal(left.Needs, want) {
		t.Errorf("leftovers wait for %v, not %v", left.Needs, want)
	}
	if !slices.Contains(network.Needs, left.ID) {
		t.Errorf("the network waits for %v only", network.Needs)
	}
}

// TestPlanNamesWhatNobodyHoldsAnyMore: the plan lists every destroyed object once, either with the cluster's own resources or as a leftover.
func TestPlanNamesWhatNobodyHoldsAnyMore(t *testing.T) {
	volume := func(id, attached string) string {
		return `{"id": "` + id + `", "status": "available", "attachments": [` + attached + `],
			"metadata": {"cinder.csi.openstack.org/cluster": "demo-00000000"}}`
	}
	balancer := func(name string) string {
		return `{"id": "` + name + `", "name": "kube_service_demo-00000000_shop_` + name + `", "provisioning_status": "ACTIVE"}`
	}
	l, _ := inCloud(t,
		strings.Join([]string{volume("claimed", ""), volume("retained", ""), volume("lent", `{"server_id": "database"}`)}, ","),
		balancer("front")+","+balancer("orphan"))
	asked := removal.Given{Held: []kube.CloudResource{
		{Kind: "Service", Namespace: "shop", Name: "front"}, {Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "orphan", Volume: "claimed"},
	}}
	for name, c := range map[string]struct {
		given   removal.Given
		options removal.DestroyOptions
		named   []string
		reason  string
	}{
		"the API answers":  {asked, removal.DestroyOptions{}, []string{"(orphan,", "(retained,", "(lent,"}, "does not delete it itself"},
		"the API does not": {removal.Given{Silent: errors.New("no route")}, removal.DestroyOptions{}, []string{"(front,", "(orphan,", "(claimed,", "(retained,", "(lent,"}, "no route"},
		"volumes are kept": {asked, removal.DestroyOptions{KeepVolumes: true}, []string{"(orphan,"}, "does not delete it itself"},
		"it was never up":  {removal.Given{}, removal.DestroyOptions{}, []string{"(front,", "(orphan,", "(claimed,", "(retained,", "(lent,"}, "does not delete it itself"},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := l.PlanLeftovers(t.Context(), nil, nil, c.given, c.options)
			if err != nil {
				t.Fatal(err)
			}
			got := steps[0].Details
			if len(got) != len(c.named) || !strings.Contains(steps[0].Reason, c.reason) {
				t.Errorf("%s: %q", steps[0].Reason, got)
			}
			for _, d := range got {
				if i := slices.IndexFunc(c.named, func(n string) bool { return strings.Contains(d, n) }); i < 0 ||
					strings.Contains(d, "server database, which is not the cluster's: it stays") != (c.named[i] == "(lent,") {
					t.Errorf("%q is not to be named so; those are %v", d, c.named)
				}
			}
		})
	}
	kept, err := l.KeptVolumes(t.Context())
	if err != nil || len(kept) != 3 || strings.Contains(kept[2], "stays") {
		t.Errorf("kept are %q: %v", kept, err)
	}
}

// TestOddVolumes: the report lists volumes of PersistentVolumes that the cloud does not have or has for others, and volumes of the cluster
// without a PersistentVolume.
func TestOddVolumes(t *testing.T) {
	named := []kube.NamedVolume{{Name: "pv-d", Claim: "shop/d", Volume: "d"}, {Name: "pv-a", Claim: "shop/a", Volume: "a"}, {Name: "pv-b", Volume: "b"}, {Name: "pv-c", Volume: "c"}, {Name: "pv-e", Volume: "e"}}
	found := []provider.LeftVolume{
		{ID: "b", State: "in-use", Own: true}, {ID: "c", State: "in-use", Stranger: "database", Own: true}, {ID: "d", State: "error_deleting"}, {ID: "e", State: "available"},
		{ID: "z", State: "available", Own: true, Claim: "shop/z"}, {ID: "theirs", State: "available"},
	}
	want := []removal.OddVolume{
		{Is: removal.VolumeBroken, PersistentVolume: "pv-d", Claim: "shop/d", Volume: "d", State: "error_deleting"},
		{Is: removal.VolumeElsewhere, PersistentVolume: "pv-c", Volume: "c", Server: "database", State: "in-use"},
		{Is: removal.VolumeGone, PersistentVolume: "pv-a", Claim: "shop/a", Volume: "a"},
		{Is: removal.VolumeOrphaned, Claim: "shop/z", Volume: "z", State: "available"},
	}
	if got := removal.Odd(named, found); !slices.Equal(got, want) {
		t.Errorf("odd are\n%+v, want\n%+v", got, want)
	}
	if got := removal.Odd(nil, nil); got == nil || len(got) != 0 { // a list in JSON
		t.Errorf("of none, %v", got)
	}
}
