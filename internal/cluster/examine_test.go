package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

func TestCheckPorts(t *testing.T) {
	nginx := func(address string, port int) machine.Listener {
		return machine.Listener{Address: address, Port: port, Process: "nginx", PID: 77, Unit: "nginx.service"}
	}
	c := newLab(t, document(t, 3, 2, 1)).Cluster
	for name, test := range map[string]struct {
		role      provider.Role
		listeners []machine.Listener
		want      []string // nothing: it fits
	}{
		"no listener":                  {provider.ControlPlane, nil, nil},
		"SSH and a web server":         {provider.ControlPlane, []machine.Listener{nginx("0.0.0.0", 22), nginx("::", 80)}, nil},
		"API port":                     {provider.ControlPlane, []machine.Listener{nginx("0.0.0.0", 6443)}, []string{"cp-1", "port 6443", "kube-apiserver", "nginx (process 77 of nginx.service)", "systemctl disable --now nginx.service"}},
		"the API port on a worker":     {provider.Worker, []machine.Listener{nginx("0.0.0.0", 6443)}, nil},
		"kubelet on a worker":          {provider.Worker, []machine.Listener{{Address: "::", Port: 10250, Process: "perl", PID: 5}}, []string{"port 10250", "kubelet", "perl (process 5)", "stop process 5"}},
		"loopback port, other address": {provider.ControlPlane, []machine.Listener{nginx("10.0.0.5", 10257)}, nil},
		"loopback port":                {provider.ControlPlane, []machine.Listener{nginx("127.0.0.1", 10257), nginx("::", 10259)}, []string{"port 10257, which kube-controller-manager", "port 10259, which kube-scheduler"}},
		"several":                      {provider.ControlPlane, []machine.Listener{nginx("127.0.0.1", 2379), {Address: "::", Port: 2380, Process: "systemd", PID: 1}}, []string{"port 2379", "port 2380", "disable --now nginx.service; disable the socket unit"}},
		"two addresses":                {provider.Worker, []machine.Listener{nginx("127.0.0.1", 10250), nginx("10.0.0.5", 10250)}, []string{"port 10250"}},
		"who knows":                    {provider.Gateway, []machine.Listener{{Address: "0.0.0.0", Port: 6443}}, []string{"port 6443", "another container", "ss -ltnp"}},
		"health page":                  {provider.Gateway, []machine.Listener{nginx("127.0.0.1", 8404)}, []string{"port 8404"}},
		"kubelet's port on a gateway":  {provider.Gateway, []machine.Listener{nginx("::", 10250)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.CheckFacts(wanted.Slot{Name: "cp-1", Role: test.role}, machine.Facts{Hostname: "cp-1", Systemd: true, Dpkg: true, Listeners: test.listeners})
			if len(test.want) == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if fail.KindOf(err) != fail.Conflict {
				t.Fatalf("want a conflict: %v", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("does not say %q: %v", w, err)
				}
			}
			if n := strings.Count(err.Error(), "which "); n > 2 || test.want[0] == "port 10250" && n != 1 {
				t.Errorf("says a port more than once: %v", err)
			}
		})
	}
}
