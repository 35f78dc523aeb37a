package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHostDocuments parses documents as users of other programs write them: each is accepted, or refused with errors that name field and remedy.
func TestHostDocuments(t *testing.T) {
	want := map[string]string{ // parts of the error, by file; "!" before a part that must be absent; empty: the document is valid
		"bastion.yaml":  "bastion",
		"claudie.yaml":  "publicAddress|privateAddress|!sshKeyFile: is required",
		"dnsaddr.yaml":  "machines[0].address|machines[1].address|machines[2].address|machines[3].address",
		"fqdn.yaml":     "machines[1].name|\"Node02\" has capital letters|!eu-west-3",
		"hostkeys.yaml": "machines[0].hostKey|machines[2].hostKey|!machines[1].hostKey|!machines[3].hostKey",
		"overlap.yaml":  "machines[0].address|machines[1].address|machines[2].address",
		"ports.yaml":    "",
		"roles.yaml":    "machines[0].role|machines[1].role|roles",
		"single.yaml":   "labels|taints",
		"sudo.yaml":     "sudoPassword|password|useSSHAgent|role",
		"usercase.yaml": "",
	}
	for _, file := range testkit.Value(filepath.Glob("testdata/hosts/*.yaml"))(t) {
		parts, known := want[filepath.Base(file)]
		if !known {
			t.Errorf("%s has no expectation", file)
			continue
		}
		_, err := validation.Parse(file, testkit.Value(os.ReadFile(file))(t))
		if parts == "" {
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		for _, p := range strings.Split(parts, "|") {
			p, not := strings.CutPrefix(p, "!")
			if err == nil || strings.Contains(err.Error(), p) == not {
				t.Errorf("%s: %v: %q (unwanted: %t)", file, err, p, not)
			}
		}
	}
}

const oneHost = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: harbour}
spec:
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, schedulable: true}
  provider:
    hosts:
      LOGIN
      machines:
        - {address: 192.0.2.11, role: control-plane, hostKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv, MACHINE}
`

// TestLogins parses documents with the login fields.
func TestLogins(t *testing.T) {
	for _, c := range []struct{ login, machine, want string }{
		{"sshKeyFile: k", "port: 9022, user: root, sshKeyFile: other", ""},
		{"sshAgent: true", "name: cp1.example.org", ""},
		{"sshConfig: ~/.ssh/config", "sshAddress: cp1", ""},
		{"sshAgent: false", "", "sshKeyFile: is required"},
		{"sshKeyFile: k", "sshAddress: cp1.example.org", ""},
		{"sshKeyFile: k", "sshAddress: 'fd00::11'", ""},
		{"sshKeyFile: k", "sshAddress: '203.0.113.1:2222'", "sshAddress: \"203.0.113.1:2222\" is neither|the port has a field of its own"},
		{"sshKeyFile: k", "sshAddress: root@cp1", "sshAddress|the user has a field of its own"},
		{"sshKeyFile: k\n      sudoPassword: {file: p}", "", ""},
		{"sshKeyFile: k\n      sudoPassword: {env: SUDO_PASSWORD}", "sudoPassword: {prompt: true}", ""},
		{"sshKeyFile: k\n      sudoPassword: {env: 'a b'}", "", "sudoPassword.env"},
		{"sshKeyFile: k\n      sudoPassword: {file: p, env: P}", "", "sudoPassword: takes exactly one of file, env and prompt"},
		{"sshKeyFile: k\n      sudoPassword: {}", "", "sudoPassword: takes exactly one"},
		{"sshKeyFile: k\n      sudoPassword: hunter2", "", "sudoPassword"},
		{"sshKeyFile: k", "name: cp1..example.org", "name"},
		{"sshKeyFile: k", "name: cp1.Example.org", "name"},
		{"sshKeyFile: k", "name: " + strings.Repeat("a.", 32) + "a", "name"},
		{"sshKeyFile: k", "user: 'x y'", "user"},
		{"sshKeyFile: k\n      bastions: [{address: 203.0.113.1, user: jump, port: 2222, hostKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv'}]", "", ""},
		{"sshKeyFile: k\n      bastions: [{address: 203.0.113.1}]", "", "bastions[0].hostKey: is required"},
		{"sshKeyFile: k\n      bastions: [{user: jump}]", "", "bastions[0].address: is required"},
		{"sshConfig: c\n      bastions: [{address: jump}]", "", ""},
	} {
		text := strings.Replace(strings.Replace(oneHost, "LOGIN", c.login, 1), "MACHINE", c.machine, 1)
		_, err := validation.Parse("c.yaml", []byte(text))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s, %s: %v", c.login, c.machine, err)
			}
			continue
		}
		for _, p := range strings.Split(c.want, "|") {
			if err == nil || !strings.Contains(err.Error(), p) {
				t.Errorf("%s, %s: %v lacks %q", c.login, c.machine, err, p)
			}
		}
	}
}
