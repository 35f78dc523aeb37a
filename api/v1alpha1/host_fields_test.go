package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// small completes a spec to that of a cluster with one machine.
func small(spec string) string {
	if !strings.Contains(spec, "endpoint: {") {
		spec += "  endpoint: {kind: direct}\n"
	}
	return spec + "  controlPlane: {replicas: 1, schedulable: true}\n"
}

// TestHostFields lists what documents use, including fields in lists and credentials that are left out.
func TestHostFields(t *testing.T) {
	head := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n"
	for name, c := range map[string]struct {
		spec string
		want []v1alpha1.HostField
	}{
		"metal": {"  provider: {metal: {}}\n", nil},
		"hosts": {"  provider: {hosts: {sshKeyFile: /k, trustOnFirstUse: true, machines: [{address: 10.0.0.1, role: control-plane}]}}\n  endpoint: {kind: direct}\n",
			[]v1alpha1.HostField{{"spec.provider.hosts.sshKeyFile", v1alpha1.HostFile, "/k"}, {"spec.provider.hosts.credential", v1alpha1.HostCredential, ""}, {"spec.provider.hosts.machines[0].address", v1alpha1.HostAddress, "10.0.0.1"}}},
		"vault": {"  provider: {metal: {}}\n  pki: {issuer: {vault: {address: 'https://v:8200', mount: pki/demo, auth: {credential: v}}}}\n",
			[]v1alpha1.HostField{{"spec.pki.issuer.vault.address", v1alpha1.HostAddress, "https://v:8200"}, {"spec.pki.issuer.vault.auth.credential", v1alpha1.HostCredential, "v"}}},
		"vault by its pod": {"  provider: {metal: {}}\n  pki: {issuer: {vault: {address: 'https://v:8200', mount: pki/demo, auth: {method: kubernetes, role: x}}}}\n",
			[]v1alpha1.HostField{{"spec.pki.issuer.vault.address", v1alpha1.HostAddress, "https://v:8200"}}},
		"backup": {"  provider: {metal: {}}\n  backup: {to: {s3: {endpoint: 'https://s3', bucket: abc}}}\n",
			[]v1alpha1.HostField{{"spec.backup.to.s3.endpoint", v1alpha1.HostAddress, "https://s3"}, {"spec.backup.to.s3.credential", v1alpha1.HostCredential, ""}}},
		"pool": {"  provider: {metal: {}}\n  unattended: {autoscale: true, autoscalePort: 443}\n  workers: [{name: a, maxReplicas: 3}]\n",
			[]v1alpha1.HostField{{"spec.unattended.autoscalePort", v1alpha1.HostPort, "443"}}},
	} {
		doc := testkit.Value(validation.Parse(name, []byte(head+small(c.spec))))(t)
		var got []v1alpha1.HostField
		for _, f := range doc.HostFields() {
			if f.Use != v1alpha1.HostRelease && f.Path != "spec.unattended.autoscalePort" || c.want != nil && f.Value == "443" {
				got = append(got, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestCredentialsInDocuments: a credential excludes a file, and method kubernetes accepts neither.
func TestCredentialsInDocuments(t *testing.T) {
	head := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n"
	for text, want := range map[string]string{
		"  provider: {hosts: {trustOnFirstUse: true, machines: [{address: 10.0.0.1, role: control-plane}]}}\n  endpoint: {kind: direct}\n":                                "x:5:14: spec.provider.hosts.sshKeyFile: is required (name the file with the private SSH key that logs in to the machines, or, on a server, its credential)",
		"  provider: {hosts: {sshKeyFile: /k, credential: a, trustOnFirstUse: true, machines: [{address: 10.0.0.1, role: control-plane}]}}\n  endpoint: {kind: direct}\n": "spec.provider.hosts.credential: names a credential, and sshKeyFile a file (keep one of them)",
		"  provider: {metal: {}}\n  backup: {to: {s3: {endpoint: 'https://s3', bucket: abc, credential: A_B}}}\n":                                                         `spec.backup.to.s3.credential: "A_B" is not the name of a credential`,
		"  provider: {metal: {}}\n  pki: {issuer: {vault: {address: 'https://v', mount: m, auth: {method: kubernetes, role: x, credentialsFile: /proc/self/environ}}}}\n": "spec.pki.issuer.vault.auth.credentialsFile: belongs to methods token and appRole",
	} {
		_, err := validation.Parse("x", []byte(head+small(text)))
		testkit.Fails(t, err, fail.Invalid, want)
	}
}
