package rehearse

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// found lists objects of a set by their keys below /registry/.
var found = map[string]struct{ resource, object string }{
	"minions/here":         {"nodes", "metadata: {name: here, annotations: {naupegos.dev/owned-labels: a}}"},
	"minions/cloudy":       {"nodes", "metadata: {name: cloudy, annotations: {naupegos.dev/owned-labels: a}}\nspec: {providerID: openstack:///1}"},
	"minions/gone":         {"nodes", "metadata: {name: gone, annotations: {naupegos.dev/owned-labels: a}}"},
	"minions/theirs":       {"nodes", "metadata: {name: theirs}"},
	"pods/d/bare":          {"pods", "metadata: {name: bare}\nspec: {nodeName: here}"},
	"pods/d/bare-gone":     {"pods", "metadata: {name: bare-gone}\nspec: {nodeName: gone}"},
	"pods/d/pending":       {"pods", "metadata: {name: pending}"},
	"pods/d/made":          {"pods", "metadata: {name: made, ownerReferences: [{controller: true}]}\nspec: {nodeName: here}"},
	"pods/d/done":          {"pods", "metadata: {name: done, ownerReferences: [{controller: true}]}\nspec: {nodeName: here}\nstatus: {phase: Succeeded}"},
	"volumeattachments/a":  {"volumeattachments.storage.k8s.io", "metadata: {name: a}\nspec: {nodeName: here}"},
	"volumeattachments/b":  {"volumeattachments.storage.k8s.io", "metadata: {name: b}\nspec: {nodeName: gone}"},
	"csinodes/gone":        {"csinodes.storage.k8s.io", "metadata: {name: gone}"},
	"endpointslices/d/own": {"endpointslices.discovery.k8s.io", "metadata: {name: own}"},
	"endpointslices/d/web": {"endpointslices.discovery.k8s.io", "metadata: {name: web, labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}"},
	"leases/d/leader":      {"leases.coordination.k8s.io", "metadata: {name: leader}"},
	"secrets/d/kept":       {"secrets", "metadata: {name: kept}"},
	"secrets/k/token":      {"secrets", "metadata: {name: token, namespace: kube-system}\ntype: bootstrap.kubernetes.io/token"},
	"secrets/k/cloud":      {"secrets", "metadata: {name: cloud-config, namespace: kube-system, labels: {naupegos.dev/addon: cloud}}"},
	"configmaps/d/ca":      {"configmaps", "metadata: {name: kube-root-ca.crt, namespace: d}"},
	"configmaps/k/auth":    {"configmaps", "metadata: {name: extension-apiserver-authentication, namespace: kube-system}"},
	"configmaps/d/auth":    {"configmaps", "metadata: {name: extension-apiserver-authentication, namespace: d}"},
	"configmaps/k/has":     {"configmaps", "metadata: {name: naupegos-addon-cloud, namespace: kube-system, labels: {naupegos.dev/addon: cloud}}"},
	"daemonsets/k/proxy":   {"daemonsets.apps", "metadata: {name: kube-proxy, namespace: kube-system}"},
	"daemonsets/k/flannel": {"daemonsets.apps", "metadata: {name: flannel, namespace: kube-flannel, labels: {naupegos.dev/addon: flannel}}"},
	"storageclasses/cloud": {"storageclasses.storage.k8s.io", "metadata: {name: cloud, labels: {naupegos.dev/addon: cloud}}"},
	"requests/a":           {"certificatesigningrequests.certificates.k8s.io", "metadata: {name: a}"},
}

// TestTidy checks that exactly the objects that no longer apply are removed.
func TestTidy(t *testing.T) {
	for name, c := range map[string]struct {
		tidy Tidy
		gone string
	}{
		"the machines are those of before": {Tidy{Machines: []string{"here", "cloudy"}},
			"csinodes/gone endpointslices/d/web leases/d/leader minions/gone pods/d/bare-gone pods/d/made volumeattachments/b"},
		"all machines are others": {Tidy{Machines: []string{"here", "cloudy"}, Rebuilt: true},
			"csinodes/gone endpointslices/d/web leases/d/leader minions/cloudy minions/gone pods/d/bare-gone pods/d/made volumeattachments/a volumeattachments/b"},
		"it is another cluster": {Tidy{Machines: []string{"here", "cloudy"}, Rebuilt: true, Anew: &Anew{}},
			"configmaps/d/ca configmaps/k/auth csinodes/gone daemonsets/k/flannel daemonsets/k/proxy endpointslices/d/web leases/d/leader " +
				"minions/cloudy minions/gone minions/here minions/theirs pods/d/bare pods/d/bare-gone pods/d/done pods/d/made requests/a " +
				"secrets/k/cloud secrets/k/token volumeattachments/a volumeattachments/b"},
	} {
		t.Run(name, func(t *testing.T) {
			tidy, all := newTidying(&c.tidy), []string{}
			for key, o := range found {
				u := &unstructured.Unstructured{}
				testkit.Must(t, yaml.Unmarshal([]byte(o.object), &u.Object))
				tidy.visit(kube.Counted{Resource: o.resource, Key: registry + key, Object: u})
				all = append(all, registry+key)
			}
			if got := strings.ReplaceAll(strings.Join(tidy.keys(all), " "), registry, ""); got != c.gone {
				t.Errorf("gone are\n%s, want\n%s", got, c.gone)
			}
		})
	}
}
