package objects

import (
	"strings"
	"testing"
)

// TestLocks: Locks names a webhook if the cluster's essential resources can't change without its answer.
func TestLocks(t *testing.T) {
	const fails = "rules: [{apiGroups: [\"*\"], apiVersions: [\"*\"], operations: [\"*\"], resources: [\"*\"]}]"
	rule := func(group, resource, more string) string {
		return "rules: [{apiGroups: [\"" + group + "\"], apiVersions: [v1], operations: [CREATE], resources: [" + resource + "]" + more + "}]"
	}
	for text, want := range map[string]string{
		fails:                             "nodes, certificatesigningrequests, pods, configmaps, secrets, serviceaccounts, leases",
		fails + ", failurePolicy: Ignore": "",
		fails + ", failurePolicy: Fail":   "nodes",
		fails + ", matchConditions: [{name: x, expression: y}]": "",
		fails + ", objectSelector: {matchLabels: {a: b}}":       "",
		fails + ", objectSelector: {}":                          "nodes",
		fails + ", namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}": "changes of nodes, certificatesigningrequests, also",
		rule("", "pods", "") + ", namespaceSelector: {matchLabels: {injection: enabled}}":                                               "",
		rule("", "pods", "") + ", namespaceSelector: {matchExpressions: [{key: control-plane, operator: DoesNotExist}]}":                "changes of pods, also",
		rule("", "nodes", ", scope: Namespaced"):                     "",
		rule("", "\"*\"", ", scope: Cluster"):                        "changes of nodes, also",
		rule("coordination.k8s.io", "leases", ""):                    "changes of leases, also",
		rule("cert-manager.io", "certificates", ""):                  "",
		rule("apps", "pods", ""):                                     "",
		strings.Replace(rule("", "pods", ""), "CREATE", "DELETE", 1): "",
	} {
		for _, kind := range webhookKinds {
			got := Locks(parsed(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: "+kind+"\nmetadata: {name: x}\nwebhooks: [{name: a.example.org, "+text+"}]\n"+"---\n"+configMap))
			if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], "webhook a.example.org refuses") || !strings.Contains(got[0], want)) {
				t.Errorf("%s %s: %q, want %q", kind, text, got, want)
			}
		}
	}
}
