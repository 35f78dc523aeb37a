package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack"
	"github.com/naupegos/naupegos/internal/testkit"
)

type object = map[string]any

// keystone is as much of a cloud as hands out application credentials, and lists volumes.
type keystone struct {
	mu          sync.Mutex
	next        int
	credentials []object
	volumes     []object
	untyped     bool // its services don't know their own types, and so take no credential with access rules
}

// RoundTrip answers a call.
func (k *keystone) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("X-Subject-Token", "token")
	body, status := object{}, http.StatusOK
	switch call := r.Method + " " + r.URL.Path; {
	case call == "POST /v3/auth/tokens":
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(text), `"application_credential"`) {
			w.Header().Set("X-Subject-Token", "of a credential")
		}
		body, status = object{"token": k.token()}, http.StatusCreated
	case r.URL.Host != "keystone" && k.untyped && r.Header.Get("X-Auth-Token") == "of a credential":
		status = http.StatusUnauthorized
	case call == "POST /v3/users/u/application_credentials":
		asked := struct {
			Credential object `json:"application_credential"`
		}{}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			return nil, err
		}
		k.next++
		asked.Credential["id"], asked.Credential["secret"] = fmt.Sprintf("id-%d", k.next), fmt.Sprintf("s3cret-%d", k.next)
		k.credentials = append(k.credentials, asked.Credential)
		body, status = object{"application_credential": asked.Credential}, http.StatusCreated
	case call == "GET /v3/users/u/application_credentials":
		body = object{"application_credentials": k.credentials}
	case strings.HasPrefix(call, "DELETE /v3/users/u/application_credentials/"):
		k.credentials = slices.DeleteFunc(k.credentials, func(c object) bool { return c["id"] == path.Base(r.URL.Path) })
		status = http.StatusNoContent
	case call == "GET /v3/project/volumes/detail":
		body = object{"volumes": k.volumes}
	case r.URL.Host == "keystone":
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(body)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (k *keystone) token() object {
	var catalog []object
	for kind, url := range map[string]string{
		"identity": "http://keystone/v3", "compute": "http://nova/v2.1", "network": "http://neutron/", "image": "http://glance/", "block-storage": "http://cinder/v3/project",
		"dns": "http://designate/",
	} {
		catalog = append(catalog, object{"type": kind, "name": kind, "endpoints": []object{{"interface": "public", "region": "r", "url": url}}})
	}
	return object{
		"catalog": catalog, "user": object{"id": "u", "name": "u"}, "project": object{"id": "project", "name": "project"},
		"roles": []object{{"id": "m", "name": "member"}}, "expires_at": "2099-01-01T00:00:00.000000Z",
	}
}

// ids lists the credentials that there are.
func (k *keystone) ids() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, c := range k.credentials {
		out = append(out, c["id"].(string))
	}
	return strings.Join(out, " ")
}

// onOpenStack returns a lab with OpenStack's provider.
func onOpenStack(t *testing.T, k *keystone) *lab {
	t.Helper()
	for name, v := range map[string]string{
		"OS_CLOUD": "", "OS_AUTH_URL": "http://keystone/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "project", "OS_USER_DOMAIN_NAME": "Default",
		"OS_REGION_NAME": "", "OS_INTERFACE": "", "OS_CACERT": "",
	} {
		t.Setenv(name, v)
	}
	doc, err := validation.Parse("test", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {openstack: {machine: {flavor: f, image: i}}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: a}]
`))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, doc)
	if l.Prov, err = openstack.New(openstack.Options{Cluster: doc, ClusterID: l.Record.ID, Calls: openstack.Calls{HTTPClient: &http.Client{Transport: k}}}); err != nil {
		t.Fatal(err)
	}
	return l
}

// servedBy is a client of a Kubernetes API that this answers for.
func servedBy(t *testing.T, answer http.HandlerFunc) *kube.Client {
	t.Helper()
	api := httptest.NewServer(answer)
	t.Cleanup(api.Close)
	client, err := kube.NewClient([]byte("{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: '"+api.URL+"'}}]}"), kube.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// rolledOut returns a Kubernetes API in which every requested workload is rolled out; look gets the name of each request.
func rolledOut(t *testing.T, look func(name string)) *kube.Client {
	t.Helper()
	return servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		look(name)
		kind := map[string]string{"deployments": "DeploymentList", "daemonsets": "DaemonSetList"}[path.Base(r.URL.Path)]
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{
			"apiVersion": "apps/v1", "kind": kind, "metadata": object{"resourceVersion": "1"},
			"items": []object{{
				"metadata": object{"name": name, "namespace": "kube-system"}, "spec": object{"replicas": 1},
				"status": object{"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
			}},
		})
	})
}

// withNodes returns a Kubernetes API with these nodes; true means that the node has the taint of nodes that the cloud has not initialized.
func withNodes(t *testing.T, nodes map[string]bool) *kube.Client {
	t.Helper()
	return servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		kind, version, items := "NodeList", "v1", []object{}
		if path.Base(r.URL.Path) == "leases" {
			kind, version = "LeaseList", "coordination.k8s.io/v1"
		} else {
			for name, tainted := range nodes {
				n := object{"metadata": object{"name": name}}
				if tainted {
					n["spec"] = object{"taints": []object{{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}}}
				}
				items = append(items, n)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"apiVersion": version, "kind": kind, "metadata": object{"resourceVersion": "1"}, "items": items})
	})
}

// TestRotateCredential: a new credential is created, stored, and distributed to everything that signs in with it; the former one is deleted once
// all of that runs. After an interrupted run, another one also leaves exactly one credential.
func TestRotateCredential(t *testing.T) {
	k := &keystone{}
	l := onOpenStack(t, k)
	ctx := t.Context()
	if _, err := l.PlanRotateCredential(ctx, ""); fail.KindOf(err) != fail.NotReady {
		t.Errorf("before there is a cluster: %v", err)
	}
	if err := l.Facts.Set(ctx, memory.Bootstrapped, "true"); err != nil {
		t.Fatal(err)
	}
	first, err := l.Cluster.Cloud().NewCloudCredential(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.KeepCredential(ctx, first); err != nil {
		t.Fatal(err)
	}
	k.credentials = append(k.credentials, object{"id": "mine", "description": "a user's own"})

	var asked atomic.Int64
	l.UseAPI(rolledOut(t, func(name string) {
		asked.Add(1)
		if !strings.Contains(k.ids(), "id-1") {
			t.Errorf("the former credential is gone before it is known that %s runs", name)
		}
	}))
	want := ""
	rotate := func(cut string) error {
		t.Helper()
		p, err := l.PlanRotateCredential(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps {
			if !strings.HasPrefix(s.ID, "addon/") {
				continue
			}
			before := addons.CredentialStep
			if s.ID != addons.AddonID(addon.NameCloudConfig) {
				before = addons.AddonID(addon.NameCloudConfig)
			}
			if s.Action != plan.Change || !slices.Contains(s.Needs, before) {
				t.Errorf("%s (%s) waits for %v", s.ID, s.Action, s.Needs)
			}
			s.Run = func(ctx context.Context, _ plan.Progress) error { // manifests come from a bundle, which is not here
				if cred, err := l.Credential(ctx); err != nil || cred.ID != want {
					t.Errorf("%s is renewed with credential %+v, not %s: %v", s.ID, cred, want, err)
				}
				if s.ID == cut {
					return fail.New(fail.Refused, "the power is out")
				}
				return nil
			}
		}
		_, err = plan.Execute(ctx, p, plan.Options{})
		return err
	}
	want = "id-2"
	if err := rotate(addons.AddonID(addon.NameCloudConfig)); err == nil || k.ids() != "id-1 mine id-2" || asked.Load() > 0 {
		t.Fatalf("cut off, there are %s: %v", k.ids(), err)
	}
	want = "id-3"
	if err := rotate(""); err != nil {
		t.Fatal(err)
	}
	if k.ids() != "mine id-3" {
		t.Errorf("there are credentials %s", k.ids())
	}
	if cred, err := l.Credential(ctx); err != nil || cred.ID != "id-3" || cred.Secret != "s3cret-3" {
		t.Errorf("kept is %+v: %v", cred, err)
	}
	if asked.Load() != 3 {
		t.Errorf("%d workloads were waited for, not three", asked.Load())
	}
}

// heard records the notes of a step.
type heard []string

func (h *heard) Status(string, ...any)           {}
func (h *heard) Note(format string, args ...any) { *h = append(*h, fmt.Sprintf(format, args...)) }

// TestCredentialReach: if the cluster's credential covers the whole project, that is reported once, when it is created, and by doctor until there
// is another one.
func TestCredentialReach(t *testing.T) {
	k := &keystone{untyped: true}
	l := onOpenStack(t, k)
	ctx := t.Context()
	if err := l.Facts.Set(ctx, memory.Bootstrapped, "true"); err != nil {
		t.Fatal(err)
	}
	check := func() string {
		t.Helper()
		checks, err := l.CheckCredential(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(checks)
	}
	if got := check(); got != "[]" {
		t.Errorf("before there is one: %s", got)
	}
	if err := l.KeepCredential(ctx, provider.CloudCredential{ID: "of a former naupegos"}); err != nil {
		t.Fatal(err)
	}
	if got := check(); !strings.Contains(got, "it was created without access rules; naupegos certs rotate demo --cloud-credential") {
		t.Errorf("of one that is older: %s", got)
	}
	for _, x := range []struct {
		untyped     bool
		note, check string
	}{
		{true, "gives access to the whole project: not all of the cloud's services take", string(provider.Warning) + " it gives access to the whole project: not all"},
		{false, "", string(provider.Fine) + " allows only the calls"},
	} {
		k.untyped = x.untyped
		p, err := l.PlanRotateCredential(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		var notes heard
		if err := p.Steps[0].Run(ctx, &notes); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(notes, "\n"); !strings.Contains(got, x.note) || (x.note == "") != (got == "") {
			t.Errorf("untyped %t: it is told %q", x.untyped, got)
		}
		if got := check(); !strings.Contains(got, x.check) {
			t.Errorf("untyped %t: %s", x.untyped, got)
		}
	}
}

// TestCredentialHandedOver: a hand-over has a credential of its own, which the cluster's rotation leaves.
func TestCredentialHandedOver(t *testing.T) {
	k := &keystone{}
	l := onOpenStack(t, k)
	own, err := l.Cluster.Cloud().NewCloudCredential(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.KeepCredential(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	text, err := l.CloudsYAML(t.Context(), handoverDay)
	if err != nil || !strings.Contains(string(text), "application_credential_id: id-2") || strings.Contains(string(text), own.Secret) {
		t.Errorf("%v:\n%s", err, text)
	}
	if got := k.credentials[1]["expires_at"]; got != "2026-11-21T12:00:00" {
		t.Errorf("it ends %v", got)
	}
	if _, err := l.Cluster.Cloud().PruneCloudCredentials(t.Context(), own.ID); err != nil || k.ids() != "id-1 id-2" {
		t.Errorf("there are %s: %v", k.ids(), err)
	}
	if _, err := newLab(t, document(t, 1, 0, 1)).CloudsYAML(t.Context(), handoverDay); fail.KindOf(err) != fail.NotFound {
		t.Errorf("on no cloud: %v", err)
	}
}

// TestRotateCredentialElsewhere: a cluster on no cloud has none.
func TestRotateCredentialElsewhere(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1)).Running(document(t, 1, 0, 1))
	_, err := l.PlanRotateCredential(t.Context(), "")
	if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "cluster demo has no credential of a cloud (only clusters on OpenStack have one)") {
		t.Errorf("%v", err)
	}
}

// TestKeptVolumes: destroy --keep-volumes lists the remaining volumes of the cluster with their claims, and no others.
func TestKeptVolumes(t *testing.T) {
	const csi = "cinder.csi.openstack.org/cluster"
	k := &keystone{}
	l := onOpenStack(t, k)
	if kept, err := l.KeptVolumes(t.Context()); err != nil || len(kept) > 0 {
		t.Errorf("where there is none: %q, %v", kept, err)
	}
	k.volumes = []object{
		{"id": "v1", "name": "pvc-1", "size": 3, "status": "available", "metadata": object{
			csi: l.Record.ID, "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop",
		}},
		{"id": "v2", "name": "pvc-2", "size": 1, "status": "available", "metadata": object{csi: l.Record.ID + "0"}},
		{"id": "v3", "name": "pvc-3", "size": 2, "status": "available", "metadata": object{csi: l.Record.ID}},
	}
	kept, err := l.KeptVolumes(t.Context())
	if want := []string{"volume pvc-1 (v1, 3 GiB, available) of claim shop/data", "volume pvc-3 (v3, 2 GiB, available)"}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("%q, %v, want %q", kept, err, want)
	}
	if kept, err := newLab(t, document(t, 1, 0, 1)).KeptVolumes(t.Context()); err != nil || len(kept) > 0 {
		t.Errorf("on no cloud: %q, %v", kept, err)
	}
}

// TestCredentialOfExternalDNS: external-dns for Designate gives a running cluster a credential that admits its calls, everything that uses the credential
// gets it, and the former one goes last. Without the addon, the credential loses those calls again.
func TestCredentialOfExternalDNS(t *testing.T) {
	k := &keystone{}
	l := onOpenStack(t, k)
	ctx := t.Context()
	testkit.Value(l.Cluster.Cloud().Home(ctx))(t) // which logs in
	planned := func() (steps []*plan.Step, said string) {
		t.Helper()
		o := &observe.Observed{Addons: map[string]bool{}}
		for _, a := range l.AddonList() {
			o.Addons[a.Name] = true
		}
		a := l.applying(o, nil)
		a.planAddons()
		steps = testkit.Value(a.graph.Seal(stage.ApplyRules))(t)
		for _, s := range steps {
			said += fmt.Sprintf("%s %s (%s) <- %s\n", s.Action, s.ID, s.Reason, strings.Join(s.Needs, " "))
		}
		return steps, said
	}
	testkit.Must(t, l.KeepCredential(ctx, testkit.Value(l.Cluster.Cloud().NewCloudCredential(ctx, ""))(t)))
	if _, said := planned(); said != "" {
		t.Errorf("a cluster without the addon gets:\n%s", said)
	}
	admits := func(n int) bool {
		rules, _ := json.Marshal(k.credentials[n]["access_rules"])
		return strings.Contains(string(rules), `"/v2/zones/*/recordsets"`)
	}
	for n, with := range []bool{true, false} {
		reason := "nothing writes to Designate with it any more"
		l.Doc.Spec.Addons = nil
		if with {
			reason = "external-dns writes to Designate with it"
			l.Doc.Spec.Addons = []v1alpha1.Addon{{Name: v1alpha1.AddonExternalDNS, ExternalDNS: &v1alpha1.ExternalDNS{Designate: &v1alpha1.Designate{Zones: []string{"example.org"}}}}}
		}
		steps, said := planned()
		users := "addon/cinder-csi "
		if with {
			users += "addon/external-dns "
		}
		for _, want := range []string{
			"replace cloud/credential (" + reason + ") <- \n", "change addon/openstack-cloud-config (it authenticates with the credential) <- cloud/credential\n",
			"change addon/openstack-cloud-controller-manager (it authenticates with the credential) <- addon/openstack-cloud-config\n",
			"destroy cloud/prune (everything uses the new one) <- " + users,
		} {
			if !strings.Contains(said, want) {
				t.Errorf("with the addon: %t; the plan lacks %q:\n%s", with, want, said)
			}
		}
		testkit.Must(t, steps[slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == addons.CredentialStep })].Run(ctx, &heard{}))
		if admits(n+1) != with {
			t.Errorf("with the addon: %t; the credential admits writing to Designate: %t", with, !with)
		}
		if _, again := planned(); again != "" {
			t.Errorf("with the addon: %t; the next apply would do:\n%s", with, again)
		}
	}
}
