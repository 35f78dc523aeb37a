//go:build integration

package kube

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	scaledSet = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: x, args: [--fast], ports: [{containerPort: 80}]}]}}
`
	hookedSet = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: later.example.org}
webhooks:
  - name: a.example.org
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    clientConfig: {caBundle: Cg==, service: {name: web, namespace: later}}
    rules: [{apiGroups: [later.example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: "1", tls.crt: x, tls: old}
`
)

// laterDecisions: programs' changes after an apply (an autoscaler's replicas, an injector's caBundle) stay, are named, and do not require another
// apply. A person's change is reverted, and an upgrade continues. If the set changes the object's content, the fields are refused.
func laterDecisions(t *testing.T, c *Client) {
	ctx, o := t.Context(), objects.Options{Addon: "manifests.later", Prune: true, Shared: true}
	set := scaledSet + hookedSet
	applySet(t, c, o, set)
	deployments, hooks, maps := c.set.AppsV1().Deployments("later"), c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations(), c.set.CoreV1().ConfigMaps("later")
	_, err := deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "scale")
	testkit.Must(t, err)
	_, err = hooks.Patch(ctx, "later.example.org", types.JSONPatchType, []byte(`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"Q0E="}]`), metav1.PatchOptions{FieldManager: "cainjector"})
	testkit.Must(t, err)
	_, err = maps.Patch(ctx, "conf", types.MergePatchType, []byte(`{"data":{"tls.crt":"new"}}`), metav1.PatchOptions{FieldManager: "tuner"})
	testkit.Must(t, err)
	check := func(what string) {
		t.Helper()
		f := testkit.Value(c.Examine(ctx, setOf(t, c, o, set), o))(t)
		left := strings.Join(f.Left, "; ")
		for _, want := range []string{"Deployment later/web spec.replicas (kube-controller-manager)", `ValidatingWebhookConfiguration later.example.org webhooks[name="a.example.org"].clientConfig.caBundle (cainjector)`, "ConfigMap later/conf data.tls.crt (tuner)"} {
			if !strings.Contains(left, want) {
				t.Errorf("%s: %s is not left: %s", what, want, left)
			}
		}
		if !f.Clean() {
			t.Errorf("%s: %+v", what, f)
		}
		d, h := testkit.Value(deployments.Get(ctx, "web", metav1.GetOptions{}))(t), testkit.Value(hooks.Get(ctx, "later.example.org", metav1.GetOptions{}))(t)
		cm := testkit.Value(maps.Get(ctx, "conf", metav1.GetOptions{}))(t)
		if *d.Spec.Replicas != 5 || string(h.Webhooks[0].ClientConfig.CABundle) != "CA" || cm.Data["tls.crt"] != "new" || cm.Data["tls"] != "old" || cm.Data["a"] != "1" {
			t.Errorf("%s: %d replicas, caBundle %q, %v", what, *d.Spec.Replicas, h.Webhooks[0].ClientConfig.CABundle, cm.Data)
		}
	}
	check("after the changes")
	applySet(t, c, o, set)
	check("after an apply")
	_, err = maps.Patch(ctx, "conf", types.MergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	testkit.Must(t, err)
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, set), o))(t); f.Clean() || len(f.Refused) > 0 {
		t.Errorf("after a person's edit: %+v", f)
	}
	applySet(t, c, o, set)
	check("after the edit was mended")
	set = strings.Replace(strings.Replace(set, "image: x", "image: z", 1), "metadata: {name: conf}", "metadata: {name: conf, labels: {helm.sh/chart: web-2}}", 1)
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, set), o))(t); len(f.Refused) != 0 || len(f.Deltas) != 2 {
		t.Errorf("an upgrade: %+v", f)
	}
	applySet(t, c, o, set)
	check("after an upgrade")
	if d := testkit.Value(deployments.Get(ctx, "web", metav1.GetOptions{}))(t); d.Spec.Template.Spec.Containers[0].Image != "z" {
		t.Errorf("after an upgrade: image %s", d.Spec.Template.Spec.Containers[0].Image)
	}
	changed := strings.Replace(set, "tls.crt: x", "tls.crt: z", 1)
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, changed), o))(t); len(f.Refused) != 1 || !strings.Contains(f.Refused[0], "data.tls.crt (tuner)") {
		t.Errorf("the set changes what a program changed: %+v", f.Refused)
	}
	_, err = c.ApplyObjects(ctx, setOf(t, c, o, changed), o)
	wantFail(t, err, fail.Conflict, "data.tls.crt (tuner)")
}

// strayDefaults: a default that forbids a change goes with it, unless a manager owns it.
func strayDefaults(t *testing.T, c *Client) {
	ctx, o := t.Context(), objects.Options{Addon: "manifests.stray", Prune: true, Shared: true}
	recreate, onDelete := strings.Replace(scaledSet, "  replicas: 2\n", "  replicas: 3\n  strategy: {type: Recreate}\n", 1), strings.Replace(database, "  replicas: 2\n", "  replicas: 2\n  updateStrategy: {type: OnDelete}\n", 1)
	applySet(t, c, o, scaledSet+"---\n"+database)
	f := testkit.Value(c.Examine(ctx, setOf(t, c, o, recreate+"---\n"+onDelete), o))(t)
	var lines []string
	for i := range f.Deltas {
		lines = append(lines, f.Deltas[i].Line())
	}
	plan := strings.Join(lines, "\n")
	if len(f.Refused) > 0 || !strings.Contains(plan, "spec.strategy.type: RollingUpdate -> Recreate") || !strings.Contains(plan, "spec.updateStrategy.type: RollingUpdate -> OnDelete") || !strings.Contains(plan, "spec.replicas: 2 -> 3") {
		t.Errorf("the plan: %v\n%s", f.Refused, plan)
	}
	applySet(t, c, o, recreate+"---\n"+onDelete)
	d, s := testkit.Value(c.set.AppsV1().Deployments("stray").Get(ctx, "web", metav1.GetOptions{}))(t), testkit.Value(c.set.AppsV1().StatefulSets("stray").Get(ctx, "db", metav1.GetOptions{}))(t)
	if d.Spec.Strategy.Type != "Recreate" || d.Spec.Strategy.RollingUpdate != nil || s.Spec.UpdateStrategy.Type != "OnDelete" || s.Spec.UpdateStrategy.RollingUpdate != nil || *d.Spec.Replicas != 3 {
		t.Errorf("%+v, %+v", d.Spec.Strategy, s.Spec.UpdateStrategy)
	}
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, recreate+"---\n"+onDelete), o))(t); !f.Clean() {
		t.Errorf("afterwards: %+v", f)
	}
	applySet(t, c, o, scaledSet+"---\n"+onDelete)
	_, err := c.set.AppsV1().Deployments("stray").Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":3}}}}`), metav1.PatchOptions{FieldManager: "tuner"})
	testkit.Must(t, err)
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, recreate+"---\n"+onDelete), o))(t); len(f.Refused) != 1 || !strings.Contains(f.Refused[0], "spec.strategy.rollingUpdate") {
		t.Errorf("a field of another program: %+v", f.Refused)
	}
}

// editedAddons: an edit of each kind of field of an addon's objects is seen and mended, and the addons of the catalogue count as unedited as they are applied.
func editedAddons(t *testing.T, c *Client) {
	ctx, o := t.Context(), objects.Options{Addon: "edited", Prune: true, Shared: true, Force: true}
	text := "apiVersion: v1\nkind: Namespace\nmetadata: {name: edited}\n---\n" + strings.ReplaceAll(scaledSet+strings.Replace(hookedSet, "caBundle: Cg==, ", "", 1), "metadata: {name: web}", "metadata: {name: web, namespace: edited, labels: {app.kubernetes.io/name: web}}")
	text = strings.NewReplacer("metadata: {name: conf}", "metadata: {name: conf, namespace: edited}", "later.example.org}\nwebhooks", "edited.example.org}\nwebhooks").Replace(text)
	_, err := c.Apply(ctx, []byte(text), o)
	testkit.Must(t, err)
	upToDate := func() bool { return testkit.Value(c.UpToDate(ctx, []byte(text), o))(t) }
	if !upToDate() {
		t.Error("it counts as edited from the start")
	}
	patch := func(kind, name, patch string, sub ...string) {
		t.Helper()
		var err error
		p, w := []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"}
		switch kind {
		case "Deployment":
			_, err = c.set.AppsV1().Deployments("edited").Patch(ctx, name, types.StrategicMergePatchType, p, w, sub...)
		case "ConfigMap":
			_, err = c.set.CoreV1().ConfigMaps("edited").Patch(ctx, name, types.MergePatchType, p, w)
		default:
			_, err = c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, name, types.StrategicMergePatchType, p, w)
		}
		testkit.Must(t, err)
	}
	for _, e := range []struct{ kind, name, patch, sub, want string }{
		{"Deployment", "web", `{"spec":{"replicas":0}}`, "scale", "spec.replicas: 0 -> 2"}, {"Deployment", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`, "", "evil"},
		{"Deployment", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","args":["--slow"]}]}}}}`, "", "--slow"}, {"Deployment", "web", `{"metadata":{"labels":{"app.kubernetes.io/name":"other"}}}`, "", "other"},
		{"ConfigMap", "conf", `{"data":{"tls":null}}`, "", "data.tls"}, {"Webhook", "edited.example.org", `{"webhooks":[{"name":"a.example.org","failurePolicy":"Fail"}]}`, "", "Fail -> Ignore"},
	} {
		if e.sub != "" {
			patch(e.kind, e.name, e.patch, e.sub)
		} else {
			patch(e.kind, e.name, e.patch)
		}
		f := c.Differences(ctx, []byte(text), o)
		var lines []string
		for i := range f.Deltas {
			lines = append(lines, f.Deltas[i].Line())
		}
		if upToDate() || !strings.Contains(strings.Join(lines, "\n"), e.want) {
			t.Errorf("%s: up to date: %t; %v", e.patch, upToDate(), lines)
		}
		_, err := c.Apply(ctx, []byte(text), o)
		testkit.Must(t, err)
		if f := c.Differences(ctx, []byte(text), o); !f.Clean() || !upToDate() {
			t.Errorf("%s: mended, but %+v; up to date: %t", e.patch, f, upToDate())
		}
	}
	files, err := filepath.Glob("../addon/testdata/*-defaults.golden")
	if err != nil || len(files) < 8 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		text, o := builtIn(t, testkit.Value(os.ReadFile(file))(t)), objects.Options{Addon: strings.TrimSuffix(filepath.Base(file), "-defaults.golden"), Prune: true, Shared: true, Force: true}
		_, err := c.Apply(ctx, text, o)
		testkit.Must(t, err)
		if !testkit.Value(c.UpToDate(ctx, text, o))(t) {
			t.Errorf("%s counts as edited: each plan compares it object by object", o.Addon)
		}
	}
}

// builtIn returns the objects of Kubernetes' own kinds: golden files contain no definitions.
func builtIn(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, u := range testkit.Value(manifest.Parse(text))(t) {
		if group := u.GroupVersionKind().Group; group == "" || !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") && group != "apiextensions.k8s.io" {
			out.WriteString("---\n")
			out.Write(testkit.Value(u.MarshalJSON())(t))
			out.WriteString("\n")
		}
	}
	return out.Bytes()
}
