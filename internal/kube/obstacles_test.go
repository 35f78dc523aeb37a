package kube

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestHomeless(t *testing.T) {
	amount := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("3")}
	}
	node := func(name string, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}, Status: corev1.NodeStatus{Allocatable: amount("2")}}
	}
	pod := func(name, on, cpu string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{
			{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}},
		}}}
	}
	ours := corev1.Taint{Key: "ours", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		others []corev1.Node
		pods   []corev1.Pod // those on w1 leave
		want   []string
	}{
		"room":                  {[]corev1.Node{node("w2")}, []corev1.Pod{pod("a", "w1", "1"), pod("b", "w2", "1")}, nil},
		"none":                  {[]corev1.Node{node("w2")}, []corev1.Pod{pod("a", "w1", "1"), pod("b", "w2", "1500m")}, []string{"a"}},
		"each takes some":       {[]corev1.Node{node("w2")}, []corev1.Pod{pod("a", "w1", "1"), pod("b", "w1", "1"), pod("c", "w1", "1")}, []string{"c"}},
		"two nodes":             {[]corev1.Node{node("w2"), node("w3")}, []corev1.Pod{pod("a", "w1", "2"), pod("b", "w1", "2")}, nil},
		"too many pods":         {[]corev1.Node{node("w2")}, []corev1.Pod{pod("a", "w1", "0"), pod("b", "w2", "0"), pod("c", "w2", "0"), pod("d", "w2", "0")}, []string{"a"}},
		"a taint":               {[]corev1.Node{node("w2", ours)}, []corev1.Pod{pod("a", "w1", "1")}, []string{"a"}},
		"no other node":         {nil, []corev1.Pod{pod("a", "w1", "0")}, []string{"a"}},
		"a processor and a bit": {[]corev1.Node{node("w2")}, []corev1.Pod{pod("a", "w1", "2001m")}, []string{"a"}},
	} {
		var leaving []corev1.Pod
		for _, p := range c.pods {
			if p.Spec.NodeName == "w1" {
				leaving = append(leaving, p)
			}
		}
		got := homeless(Away{Node: "w1"}, leaving, append(c.others, node("w1")), c.pods)
		if len(got) != len(c.want) || len(got) > 0 && !strings.HasPrefix(got[0], "pod default/"+c.want[0]+" has no room on another node while w1 is drained") {
			t.Errorf("%s: %q, want %v", name, got, c.want)
		}
	}
	tolerant := pod("a", "w1", "1")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "ours", Operator: corev1.TolerationOpExists}}
	tolerant.Spec.NodeSelector = map[string]string{"disk": "fast"}
	fast := node("w2", ours)
	for want, label := range map[int]string{0: "fast", 1: "slow"} {
		fast.Labels = map[string]string{"disk": label}
		if got := homeless(Away{Node: "w1"}, []corev1.Pod{tolerant}, []corev1.Node{fast}, nil); len(got) != want {
			t.Errorf("a node whose disk is %s: %q", label, got)
		}
	}
}

// TestHomelessBeside: nodes that are created for a drain have the drained node's room, minus the pods that every node runs.
func TestHomelessBeside(t *testing.T) {
	of := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	ours := corev1.Taint{Key: "ours", Effect: corev1.TaintEffectNoSchedule}
	w1 := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{corev1.LabelHostname: "w1", "disk": "fast"}},
		Status: corev1.NodeStatus{Allocatable: of("2")}}
	pod := func(name, cpu string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "w1",
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: of(cpu)}}}}}
		change(&p)
		return p
	}
	any := func(*corev1.Pod) {}
	selects := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	yes := true
	everywhere := pod("proxy", "500m", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "proxy", Controller: &yes}}
	})
	for name, c := range map[string]struct {
		beside int
		change func(*corev1.Node)
		leave  []corev1.Pod
		want   int
	}{
		"none":                    {0, nil, []corev1.Pod{pod("a", "1", any)}, 1},
		"one":                     {1, nil, []corev1.Pod{pod("a", "1500m", any)}, 0},
		"what every node runs":    {1, nil, []corev1.Pod{pod("a", "1600m", any)}, 1},
		"one for two":             {1, nil, []corev1.Pod{pod("a", "1", any), pod("b", "1", any)}, 1},
		"two for two":             {2, nil, []corev1.Pod{pod("a", "1", any), pod("b", "1", any)}, 0},
		"the pool's label":        {1, nil, []corev1.Pod{pod("a", "1", selects("disk", "fast"))}, 0},
		"bound to this very node": {1, nil, []corev1.Pod{pod("a", "1", selects(corev1.LabelHostname, "w1"))}, 1},
		"the pool's taint":        {1, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ours} }, []corev1.Pod{pod("a", "1", any)}, 1},
		"it is cordoned itself": {1, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}, []corev1.Pod{pod("a", "1", any)}, 0},
	} {
		n := *w1.DeepCopy()
		if c.change != nil {
			c.change(&n)
		}
		if got := homeless(Away{"w1", c.beside}, c.leave, []corev1.Node{n}, append(slices.Clone(c.leave), everywhere)); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}

func TestWebhookJudges(t *testing.T) {
	fails, ignores := admissionv1.Fail, admissionv1.Ignore
	pods := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}}}}
	all := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*"}}}}
	deletions := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Delete}, Rule: all[0].Rule}}
	space := func(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: op, Values: []string{"kube-system"}}}}
	}
	for name, c := range map[string]struct {
		hook webhook
		want bool
	}{
		"of pods":              {webhook{fails: &fails, rules: pods}, true},
		"of everything":        {webhook{rules: all}, true}, // fails by default
		"its silence is taken": {webhook{fails: &ignores, rules: all}, false},
		"of deletions":         {webhook{rules: deletions}, false},
		"not there":            {webhook{rules: all, spaces: space(metav1.LabelSelectorOpNotIn)}, false},
		"just there":           {webhook{rules: all, spaces: space(metav1.LabelSelectorOpIn)}, true},
	} {
		if got := c.hook.judges(map[string]string{"name": "kube-system"}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDeprecatedUse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.37",resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="later.example.org",removed_release="1.40",resource="things",subresource="",version="v1beta1"} 1
`))
	}))
	defer server.Close()
	c := &Client{set: testkit.Value(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t), server: server.URL}
	used := testkit.Value(c.DeprecatedUse(t.Context(), "1.37"))(t)
	if want := []string{"flowschemas of flowcontrol.apiserver.k8s.io/v1beta3 is still asked for, and Kubernetes 1.37 does not serve it any more"}; !slices.Equal(used, want) {
		t.Errorf("%q", used)
	}
}

// TestUnservedVersions: which versions a definition does not serve, and in which of them objects may be stored.
func TestUnservedVersions(t *testing.T) {
	const v1, beta, alpha = "{name: v1, served: true, storage: true}", "{name: v1beta1, served: false, storage: false}", "{name: v1alpha1, served: false, storage: true}"
	const again = ", which their definition does not serve: write each of them once more, then take "
	for name, c := range map[string]struct {
		versions, stored string
		want             []string
	}{
		"one version":          {v1, "v1", nil},
		"stored as they were":  {v1 + "," + beta, "v1beta1, v1", []string{"sails.example.org may be stored in version v1beta1" + again + "v1beta1 out of the definition's status.storedVersions"}},
		"stored anew":          {v1 + "," + beta, "v1", nil},
		"taken out":            {v1, "v1alpha1, v1", []string{"sails.example.org may be stored in version v1alpha1" + again + "v1alpha1 out of the definition's status.storedVersions"}},
		"the one that is kept": {"{name: v1, served: true, storage: false}, " + alpha, "v1alpha1", []string{"sails.example.org may be stored in version v1alpha1, which their definition does not serve: make the definition serve it, or store another one"}},
		"nothing was stored":   {v1 + "," + beta, "", nil},
	} {
		d := &unstructured.Unstructured{}
		testkit.Must(t, yaml.Unmarshal([]byte("metadata: {name: sails.example.org}\nspec: {versions: ["+c.versions+"]}\nstatus: {storedVersions: ["+c.stored+"]}\n"), &d.Object))
		if got := unservedVersions(d); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestStoredIn: objects in a version that the next minor can't read are named; where the API does not serve it, there are none.
func TestStoredIn(t *testing.T) {
	items := `{"metadata":{"name":"a"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/scheduling.k8s.io/v1alpha1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"scheduling.k8s.io/v1alpha1","resources":[
				{"name":"workloads","kind":"Workload","namespaced":true,"verbs":["get","list"]},{"name":"workloads/status","kind":"Workload","verbs":["get"]}]}`))
		case "/apis/scheduling.k8s.io/v1alpha1/workloads":
			_, _ = w.Write([]byte(`{"kind":"WorkloadList","apiVersion":"scheduling.k8s.io/v1alpha1","items":[` + items + `]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	c := &Client{set: testkit.Value(kubernetes.NewForConfig(cfg))(t), dynamic: testkit.Value(dynamic.NewForConfig(cfg))(t), server: server.URL}
	look := func() []string { return testkit.Value(c.StoredIn(t.Context(), release.Dropped("v1.37.2")))(t) }
	want := []string{"there are workloads of scheduling.k8s.io/v1alpha1, which the new release can't read: delete them, and make them again afterwards in a version that it has"}
	if got := look(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	items = ""
	if got := look(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestDropped: Kubernetes' own library does not know the fields that a minor is said to ignore. This module has the library of 1.36.
func TestDropped(t *testing.T) {
	for _, name := range release.Dropped("v1.36.0") {
		if gv := testkit.Value(schema.ParseGroupVersion(name))(t); scheme.Scheme.IsVersionRegistered(gv) || !scheme.Scheme.IsGroupRegistered(gv.Group) {
			t.Errorf("%s is known to the library of 1.36, or not even its group", gv)
		}
	}
}
