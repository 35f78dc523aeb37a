package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/release"
)

// checkNodes checks control plane and pools.
func checkNodes(c *v1alpha1.Cluster, r *findings) {
	if n := c.Spec.ControlPlane.Replicas; n%2 == 0 {
		field := "spec.controlPlane.replicas"
		if h := c.Spec.Provider.Hosts; h != nil && h.Count(v1alpha1.RoleControlPlane, "") == n {
			field = machinesField // the number is derived from the machines
		}
		r.Add(field, fmt.Sprintf("%d control-plane machines are even: one more than %d, but no more may fail", n, n-1), "take 1, 3 or 5", machinesField)
	}
	checkLabels(r, "spec.controlPlane.labels", c.Spec.ControlPlane.Labels)
	seen := map[string]int{}
	for i, p := range c.Spec.Workers {
		path := strict.Item("spec.workers", i)
		switch first, again := seen[p.Name]; {
		case p.Name == "":
			continue // reported as required
		case again:
			r.Add(path+".name", fmt.Sprintf("%s is already the name of spec.workers[%d]", strict.Quote(p.Name), first), "")
		case p.Name == v1alpha1.GroupControlPlane || p.Name == v1alpha1.GroupGateway:
			r.Add(path+".name", fmt.Sprintf("%s is taken: machines of the cluster's own are called so", strict.Quote(p.Name)), "")
		default:
			checkLabelName(r, path+".name", p.Name)
		}
		seen[p.Name] = i
		checkLabels(r, path+".labels", p.Labels)
		checkTaints(r, path+".taints", p.Taints)
		checkScaling(c, r, path, p)
		checkPoolVersion(c, r, path+".version", p.Version)
	}
}

// maxKubeletSkew is how many minors a kubelet may be behind the API servers.
const maxKubeletSkew = 3

// checkPoolVersion requires a release whose kubelets work with API servers of the cluster's release.
func checkPoolVersion(c *v1alpha1.Cluster, r *findings, field, version string) {
	const cluster = "spec.kubernetes.version"
	if version == "" {
		return
	}
	if problem, hint := checkVersion(version); problem != "" {
		r.Add(field, problem, hint)
		return
	}
	pool, ok := release.Parse(version)
	servers, known := release.Parse(c.Spec.Kubernetes.Version)
	switch {
	case !ok || !known: // reported at spec.kubernetes.version
	case release.Compare(version, c.Spec.Kubernetes.Version) > 0:
		r.Add(field, fmt.Sprintf("%s is newer than the cluster, %s: no kubelet may be ahead of an API server", version, c.Spec.Kubernetes.Version),
			"upgrade the cluster first, or leave it out", cluster)
	case servers[1]-pool[1] > maxKubeletSkew:
		r.Add(field, fmt.Sprintf("%s is more than %d minors behind the cluster, %s", version, maxKubeletSkew, c.Spec.Kubernetes.Version), "upgrade the pool first", cluster)
	}
}

// checkScaling requires consistent bounds that include the initial number, and a provider that can create machines.
func checkScaling(c *v1alpha1.Cluster, r *findings, path string, p v1alpha1.Pool) {
	switch {
	case !p.Scales() && p.MinReplicas != nil:
		r.Add(path+".minReplicas", "has no effect without maxReplicas", "add maxReplicas, or remove it")
	case !p.Scales():
	case c.Spec.Provider.Hosts != nil:
		r.Add(path+".maxReplicas", "provider hosts can't make machines: the document names them", "remove it")
	case p.MaxReplicas < p.Least():
		r.Add(path+".maxReplicas", fmt.Sprintf("%d are fewer than minReplicas, %d", p.MaxReplicas, p.Least()), "", path+".minReplicas")
	case p.Count() < p.Least() || p.Count() > p.MaxReplicas:
		r.Add(path+".replicas", fmt.Sprintf("the pool can't begin with %d: it has %d to %d machines", p.Count(), p.Least(), p.MaxReplicas), "leave it out, or take a number between them",
			path+".maxReplicas")
	}
}

// checkLabelName requires a name that can be part of a host name.
func checkLabelName(r *findings, field, name string) {
	const hint = "take lower-case letters, digits and dashes, a letter or digit at both ends"
	capitals := ""
	if name != strings.ToLower(name) {
		capitals = " and capital letters"
	}
	strange := strings.IndexFunc(name, func(c rune) bool {
		return c != '-' && (c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c))
	})
	switch {
	case len(validation.IsDNS1123Label(name)) == 0 || r.Placeholder(field, name):
	case strange >= 0:
		c, _ := utf8.DecodeRuneInString(name[strange:])
		r.Add(field, strict.Quote(name)+" contains "+strict.Quote(string(c))+capitals, hint)
	case capitals != "":
		r.Add(field, strict.Quote(name)+" has capital letters", "write it in lower case")
	case strings.Trim(name, "-") != name:
		r.Add(field, strict.Quote(name)+" begins or ends with a dash", hint)
	default:
		r.Add(field, "is longer than 63 characters", "")
	}
}

// checkLabels checks keys and values, and that Kubernetes and Naupegos do not set the labels themselves.
func checkLabels(r *findings, path string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		field := path + "[" + strict.Clip(key) + "]"
		checkLabelKey(r, field, key)
		if msgs := validation.IsValidLabelValue(labels[key]); len(msgs) > 0 {
			r.Add(field, strict.Quote(labels[key])+" is not a label value", "up to 63 letters, digits, - _ . with a letter or digit at both ends")
		}
		if slices.Contains([]string{"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node-role.kubernetes.io/control-plane"}, key) {
			r.Add(field, "is set by Kubernetes itself", "remove it")
		}
		if strings.HasPrefix(key, v1alpha1.Group+"/") {
			r.Add(field, "is set by naupegos itself", "remove it")
		}
	}
}

func checkLabelKey(r *findings, field, key string) {
	if len(validation.IsQualifiedName(key)) > 0 {
		r.Add(field, strict.Quote(key)+" is not a label key", `write it like "disk" or "example.org/disk"`)
	}
}

// checkTaints checks keys and values, and that no taint is given twice.
func checkTaints(r *findings, path string, taints []v1alpha1.Taint) {
	seen := map[[2]string]int{}
	for i, t := range taints {
		p := strict.Item(path, i)
		if t.Key != "" {
			checkLabelKey(r, p+".key", t.Key)
		}
		if len(validation.IsValidLabelValue(t.Value)) > 0 {
			r.Add(p+".value", strict.Quote(t.Value)+" is not a taint value", "up to 63 letters, digits, - _ . with a letter or digit at both ends")
		}
		id := [2]string{t.Key, t.Effect}
		if first, again := seen[id]; again {
			r.Add(p, fmt.Sprintf("has the same key and effect as taints[%d]", first), "keep one of them", strict.Item(path, first))
		} else {
			seen[id] = i
		}
	}
}

// checkNames requires names that are unique and valid host names.
func checkNames(c *v1alpha1.Cluster, r *findings) {
	name := c.Metadata.Name
	if name == "" {
		return
	}
	checkLabelName(r, "metadata.name", name)
	if longest := len(name + "-" + v1alpha1.GroupControlPlane + "-NN"); longest > validation.DNS1123LabelMaxLength {
		r.Add("metadata.name", fmt.Sprintf("is too long: %s-%s-NN must fit into 63 characters", strict.Clip(name), v1alpha1.GroupControlPlane), "shorten it")
	}
	for i, p := range c.Spec.Workers {
		digits := max(2, len(fmt.Sprint(p.Most())))
		if longest := len(name) + len(p.Name) + 2 + digits; longest > validation.DNS1123LabelMaxLength {
			r.Add(strict.Item("spec.workers", i)+".name", fmt.Sprintf("is too long: %s-%s-%s must fit into 63 characters", strict.Clip(name), strict.Clip(p.Name), strings.Repeat("N", digits)),
				"shorten it or the cluster's name", "metadata.name")
		}
	}
}

// checkCapacity requires a node on which ordinary workloads may run.
func checkCapacity(c *v1alpha1.Cluster, r *findings) {
	if c.Spec.ControlPlane.Schedulable {
		return
	}
	if c.WorkerCount() == 0 {
		r.Add("spec.workers", "no machine may run workloads", "add a pool, or set spec.controlPlane.schedulable to true", "spec.provider", "spec.controlPlane.schedulable")
		return
	}
	for _, p := range c.Spec.Workers {
		if p.Count() > 0 && !slices.ContainsFunc(p.Taints, func(t v1alpha1.Taint) bool { return t.Effect != "PreferNoSchedule" }) {
			return
		}
	}
	if c.Spec.SmokeTest != nil && *c.Spec.SmokeTest {
		r.Add("spec.workers", "every pool is tainted: the smoke test can run nowhere", "leave a pool without taints, or set spec.smokeTest to false", "spec.smokeTest")
	}
}
