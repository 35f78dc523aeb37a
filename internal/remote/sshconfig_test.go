package remote

import (
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func exampleHosts() []Host {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7yqyH6N0cxwTqA4ytSXV9CRcMr5+1PTFQkEqQHlCMJ"
	gateways := []Host{
		{Name: "demo-gw-1", Address: "10.0.0.11", HostKeys: []string{key + " root@demo-gw-1"}},
		{Name: "demo-gw-2", Address: "10.0.0.12", Port: 2222, User: "debian", HostKeys: []string{key}},
	}
	return append([]Host{
		{Name: "demo-cp-1", Address: "10.0.0.21", HostKeys: []string{key}, Via: gateways},
		{Address: "192.0.2.7", HostKeys: []string{"nonsense"}},
	}, gateways...)
}

func TestGolden(t *testing.T) {
	for name, got := range map[string][]byte{
		"known_hosts": KnownHosts(exampleHosts()),
		"ssh_config":  SSHConfig(exampleHosts(), "/home/a b/.local/state/naupegos/demo/id", "/home/a b/.local/state/naupegos/demo/known_hosts"),
	} {
		testkit.Golden(t, name, got)
	}
}
