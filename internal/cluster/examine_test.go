package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/render"
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
		"nobody listens":               {provider.ControlPlane, nil, nil},
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
			err := c.checkFacts(wanted.Slot{Name: "cp-1", Role: test.role}, machine.Facts{Hostname: "cp-1", Systemd: true, Dpkg: true, Listeners: test.listeners})
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

func TestUnfit(t *testing.T) {
	taken := fail.New(fail.Conflict, "port 10250 is taken").At("demo-a-1")
	o := &Observed{
		Want: []wanted.Slot{{Name: "demo-a-1"}, {Name: "demo-a-2"}, {Name: "demo-a-3"}},
		Machines: map[string]*Seen{
			"demo-a-1": {Err: &unfitError{taken}}, "demo-a-2": {Err: fail.New(fail.Unreachable, "connect")},
			"gone": {Err: &unfitError{fail.New(fail.Conflict, "not asked for")}},
		},
	}
	if err := o.unfit(); fail.KindOf(err) != fail.Conflict || err.Error() != taken.Error() {
		t.Errorf("got %v", err)
	}
	o.Machines["demo-a-3"] = &Seen{Err: &unfitError{fail.New(fail.Conflict, "port 6443 is taken").At("demo-a-3")}}
	if err := o.unfit(); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "port 10250") || !strings.Contains(err.Error(), "port 6443") || !strings.Contains(err.Error(), "2 machines") {
		t.Errorf("got %v", err)
	}
	delete(o.Machines, "demo-a-1")
	delete(o.Machines, "demo-a-3")
	if err := o.unfit(); err != nil {
		t.Errorf("an unreachable machine counts as unfit: %v", err)
	}
}

// TestShortOfRoom: a machine whose disk does not take what is laid out on it is named before that is begun.
func TestShortOfRoom(t *testing.T) {
	next := &bundle.Bundle{Manifest: bundle.Manifest{
		Binaries: []bundle.Artifact{{Name: "kubelet", Digest: "sha256:a", Size: 50 << 20}},
		Images:   []bundle.Image{{Name: "kube-proxy", Archive: bundle.Artifact{Digest: "sha256:b", Size: 30 << 20}}},
	}}
	c := &Cluster{Renderer: &render.Renderer{Conn: &connect.Conn{Env: &env.Env{ByRelease: map[string]*bundle.Bundle{"v1.37.2": next}}}}}
	o := &Observed{Machines: map[string]*Seen{}}
	for name, r := range map[string]*machine.Report{
		"narrow":  {Missing: []string{"sha256:a", "sha256:b"}, DiskFree: 239 << 20},
		"roomy":   {Missing: []string{"sha256:a", "sha256:b"}, DiskFree: 240 << 20},
		"laid":    {DiskFree: 1 << 20},
		"unknown": {Missing: []string{"sha256:a"}}, // an older agent does not say
		"silent":  nil,
	} {
		o.Want, o.Machines[name] = append(o.Want, wanted.Slot{Name: name}), &Seen{Report: r}
	}
	if got, want := c.shortOfRoom(o), "machine narrow has 239 MiB free below /var/lib, and what is to be laid out there takes up to 240 MiB"; !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q alone", got, want)
	}
}
