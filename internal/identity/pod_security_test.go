package identity

import (
	"strings"
	"testing"
)

// TestAdmissionConfig keeps the plugins of the base and exempts kube-system, once.
func TestAdmissionConfig(t *testing.T) {
	base := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration: {kind: Configuration}\n"
	p := PodSecurity{Enforce: "baseline", EnforceVersion: "latest", Namespaces: []string{"storage", "kube-system"}, Usernames: []string{"corp:alice"}}
	for _, b := range []string{"", base} {
		got, err := AdmissionConfig(b, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"kind: AdmissionConfiguration", "name: PodSecurity", "kind: PodSecurityConfiguration", "enforce: baseline", "- corp:alice", "- storage"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		if strings.Count(got, "kube-system") != 1 || strings.Contains(got, "runtimeClasses") || strings.Contains(got, "EventRateLimit") != (b != "") {
			t.Errorf("%s", got)
		}
	}
	if _, err := AdmissionConfig("a: [", p); err == nil {
		t.Error("no YAML is taken")
	}
}
