package v1alpha1

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// suggests matches names of fields that may refer to the host or its network.
var suggests = regexp.MustCompile(`(?i)(file|path|dir|directory|url|uri|address|endpoint|hosts?|server|servers|key|keys|identity|credentials?|cloud|port|ca|cert|certificate|token|secret|password|image|vip|floatingip|dnsname|socket|proxy|registry|mirror|chart|version|env)$`)

// TestEveryFieldThatMayNameTheHostIsTagged: a field whose name suggests a resource of the host has a tag that says what it does.
func TestEveryFieldThatMayNameTheHostIsTagged(t *testing.T) {
	seen := map[HostUse]int{}
	strict.Walk(reflect.TypeFor[Cluster](), "", func(path string, parent reflect.Type, f strict.Field) {
		use, tagged := parent.Field(f.Index).Tag.Lookup("host")
		if tagged && !slices.Contains(hostUses, HostUse(use)) {
			t.Errorf("%s: the tag host:%q is none of %q", path, use, hostUses)
		}
		seen[HostUse(use)]++
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !strict.IsText(e) || e.Kind() == reflect.Map || path == "apiVersion" {
			return
		}
		if suggests.MatchString(f.Key) && !tagged && len(f.Enum) == 0 && f.Key != "apiVersion" {
			t.Errorf("%s: the name suggests a resource of the host: give the field a tag host, none where it is harmless", path)
		}
	})
	for _, use := range hostUses {
		if seen[use] == 0 {
			t.Errorf("no field is tagged %s", use)
		}
	}
}

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
		want []HostField
	}{
		"metal": {"  provider: {metal: {}}\n", nil},
		"hosts": {"  provider: {hosts: {sshKeyFile: /k, trustOnFirstUse: true, machines: [{address: 10.0.0.1, role: control-plane}]}}\n  endpoint: {kind: direct}\n",
			[]HostField{{"spec.provider.hosts.sshKeyFile", HostFile, "/k"}, {"spec.provider.hosts.credential", HostCredential, ""}, {"spec.provider.hosts.machines[0].address", HostAddress, "10.0.0.1"}}},
		"vault": {"  provider: {metal: {}}\n  pki: {issuer: {vault: {address: 'https://v:8200', mount: pki/demo, auth: {credential: v}}}}\n",
			[]HostField{{"spec.pki.issuer.vault.address", HostAddress, "https://v:8200"}, {"spec.pki.issuer.vault.auth.credential", HostCredential, "v"}}},
		"vault by its pod": {"  provider: {metal: {}}\n  pki: {issuer: {vault: {address: 'https://v:8200', mount: pki/demo, auth: {method: kubernetes, role: x}}}}\n",
			[]HostField{{"spec.pki.issuer.vault.address", HostAddress, "https://v:8200"}}},
		"backup": {"  provider: {metal: {}}\n  backup: {to: {s3: {endpoint: 'https://s3', bucket: abc}}}\n",
			[]HostField{{"spec.backup.to.s3.endpoint", HostAddress, "https://s3"}, {"spec.backup.to.s3.credential", HostCredential, ""}}},
		"pool": {"  provider: {metal: {}}\n  unattended: {autoscale: true, autoscalePort: 443}\n  workers: [{name: a, maxReplicas: 3}]\n",
			[]HostField{{"spec.unattended.autoscalePort", HostPort, "443"}}},
	} {
		doc := testkit.Value(Parse(name, []byte(head+small(c.spec))))(t)
		var got []HostField
		for _, f := range doc.HostFields() {
			if f.Use != HostRelease && f.Path != "spec.unattended.autoscalePort" || c.want != nil && f.Value == "443" {
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
		_, err := Parse("x", []byte(head+small(text)))
		testkit.Fails(t, err, fail.Invalid, want)
	}
}
