//go:build integration

package layout

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSystemdAcceptsUnits: systemd accepts every rendered unit.
func TestSystemdAcceptsUnits(t *testing.T) {
	p := testParams()
	p.EtcdMode = EtcdService
	c, err := p.ControlPlane(t.Context(), testPKI(t, testTime), p.ControlPlanes[0], p.NewEtcd())
	testkit.Must(t, err)
	h := newHost(t, c)
	for _, b := range c.Binaries {
		h.exec(t, []byte("#!/bin/true\n"), "install", "-D", "-m", "755", "/dev/stdin", b.Path)
	}
	h.exec(t, []byte("#!/bin/true\n"), "install", "-D", "-m", "755", "/dev/stdin", p.AgentPath)
	const dir = "/etc/systemd/system/"
	for _, u := range c.Units {
		h.exec(t, []byte(u.Content), "install", "-D", "-m", "644", "/dev/stdin", dir+u.Name)
		for _, d := range u.DropIns {
			h.exec(t, []byte(d.Content), "install", "-D", "-m", "644", "/dev/stdin", dir+u.Name+".d/"+d.Name)
		}
	}
	for _, u := range c.Units {
		out, err := h.try(t.Context(), nil, "systemd-analyze", "verify", "--man=no", dir+u.Name)
		if err != nil || strings.Contains(out, u.Name) {
			t.Errorf("systemd-analyze verify %s: %v\n%s", u.Name, err, out)
		}
	}
}

// TestContainerdReadsItsConfig: the bundle's containerd interprets config.toml as intended.
func TestContainerdReadsItsConfig(t *testing.T) {
	for cgroup, p := range map[int]Params{1: localParams(), 2: testParams()} {
		b := bundletest.Of(t, p.Release.Version)
		p.Release.Bundle = b.Manifest
		c, err := p.Worker(t.Context(), testPKI(t, testTime), testWorker(p))
		testkit.Must(t, err)
		out := newHost(t, c).exec(t, nil, bundletest.Program(t, b, "containerd"), "--config", containerdDir+"/config.toml", "config", "dump")
		pause, err := b.Image("pause")
		testkit.Must(t, err)
		want := []string{"sandbox = '" + pause.Ref + "'", "config_path = '/etc/containerd/certs.d'", "bin_dirs = ['/opt/cni/bin']", "version = 3"}
		if cgroup == 2 {
			want = append(want, "SystemdCgroup = true", "restrict_oom_score_adj = false", "disable_apparmor = false")
		} else {
			want = append(want, "SystemdCgroup = false", "restrict_oom_score_adj = true", "disable_apparmor = true")
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("cgroup v%d: containerd's configuration lacks %s:\n%s", cgroup, w, out)
			}
		}
		if strings.Contains(out, "level=warning") {
			t.Errorf("containerd warns:\n%s", out)
		}
	}
}
