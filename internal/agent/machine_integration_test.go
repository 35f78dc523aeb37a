//go:build integration

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/provider/local/localtest"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestMain lets the test binary supervise the machine that it boots.
func TestMain(m *testing.M) {
	localtest.SuperviseIfAsked()
	os.Exit(m.Run())
}

type noted struct{ t *testing.T }

func (n noted) Status(format string, args ...any) { n.t.Logf("  "+format, args...) }

// realMachine is a machine with systemd, and everything needed to work on it.
type realMachine struct {
	*testing.T
	d      *remote.Dialer
	h      remote.Host
	bundle *bundle.Bundle
}

// boot creates a machine of the local provider with the newest bundle and the agent of this tree.
func boot(t *testing.T) *realMachine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test boots a machine: run it as root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "naupegos-agent-test-") // a real disk, for the machine's overlay
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(dir)) })
	agent := filepath.Join(dir, "naupegos-agent")
	testkit.Must(t, testkit.Program(agent, "cmd/naupegos-agent", ""))
	private, public, err := remote.GenerateKey("agent test")
	testkit.Must(t, err)
	key, err := remote.ParseKey(private)
	testkit.Must(t, err)
	b := bundletest.Any(t)
	p, err := local.New(local.Options{
		ClusterID: fmt.Sprintf("itest-%08x", rand.Uint32()), Root: filepath.Join(dir, "local"), Bundle: b, SSHPublicKeys: []string{public},
	})
	testkit.Must(t, err)
	t.Cleanup(func() {
		inv, err := p.Observe(context.Background())
		testkit.Must(t, err)
		for _, s := range p.Destroy(context.Background(), inv) {
			testkit.Must(t, s.Run(context.Background(), noted{t}))
		}
	})
	inv, err := p.Observe(t.Context())
	testkit.Must(t, err)
	userData, err := machine.CloudInit(machine.UserData{Hostname: "gw-1", SSHKeys: []string{public}})
	testkit.Must(t, err)
	steps, err := p.Steps(t.Context(), provider.Wanted{Machines: []provider.MachineSpec{{Name: "gw-1", Role: provider.Gateway, Index: 1, UserData: userData}}}, inv)
	testkit.Must(t, err)
	for _, s := range steps {
		testkit.Must(t, s.Run(t.Context(), noted{t}))
	}
	m, err := p.Machine(t.Context(), "gw-1")
	testkit.Must(t, err)
	d := remote.NewDialer([]remote.Key{key}, remote.Options{AgentPath: agent})
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	return &realMachine{T: t, d: d, bundle: b,
		h: remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}}
}

func (m *realMachine) run(argv ...string) string {
	m.Helper()
	out, err := m.d.Run(m.Context(), m.h, nil, argv...)
	testkit.Must(m.T, err)
	return strings.TrimSpace(string(out))
}

// always returns a configuration that depends on no facts.
func always(c machine.Config) func(machine.Facts) (machine.Config, error) {
	return func(machine.Facts) (machine.Config, error) { return c, nil }
}

// apply applies a configuration and reports how long that took.
func (m *realMachine) apply(c machine.Config) machine.Report {
	m.Helper()
	start := time.Now()
	r, err := m.d.Apply(m.Context(), m.h, always(c), remote.ApplyOptions{Blob: func(digest string) (io.ReadCloser, int64, error) {
		f, err := os.Open(m.bundle.Path(digest))
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		return f, info.Size(), err
	}})
	testkit.Must(m.T, err)
	m.Logf("applied in %s: %d changes", time.Since(start).Round(time.Millisecond), len(r.Changes))
	return r
}

// config returns a configuration with a distribution's unit, a unit of ours, containerd with an empty store, and an image for it.
func (m *realMachine) config() machine.Config {
	c := machine.Config{
		Machine:     "gw-1",
		Users:       []string{"app"},
		Directories: []machine.Directory{{Path: "/etc/app", Mode: 0o750, Owner: "app:app"}},
		Files: []machine.File{
			{Path: "/etc/app/app.conf", Mode: 0o600, Content: []byte("one\n"), Secret: true},
			{Path: "/etc/haproxy/haproxy.cfg", Mode: 0o600, Owner: "root:root", Content: []byte("defaults\n  mode http\n  timeout client 1s\n  timeout server 1s\n  timeout connect 1s\nfrontend check\n  bind 127.0.0.1:8404\n  monitor-uri /healthz\n")},
		},
		Sysctls: map[string]string{"net.ipv4.ip_nonlocal_bind": "1", "net.ipv4.ip_forward": "1"},
		Modules: []string{"overlay"},
		Units: []machine.Unit{
			{Name: "containerd.service", Enabled: true, Active: true, Content: "[Service]\nType=notify\nExecStart=/usr/local/bin/containerd --root /var/lib/other --config /dev/null\n" +
				"KillMode=process\nDelegate=yes\n[Install]\nWantedBy=multi-user.target\n"},
			{Name: "haproxy.service", Enabled: true, Active: true, Reload: true, Watches: []string{"/etc/haproxy/haproxy.cfg"},
				DropIns: []machine.DropIn{{Name: "10-naupegos.conf", Content: "[Service]\nRestartSec=1s\n"}}},
			{Name: "app.service", Content: "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n", Enabled: true, Active: true,
				Watches: []string{"/etc/app"}},
		},
	}
	for _, b := range m.bundle.Manifest.Binaries {
		if slices.Contains([]string{"containerd", "containerd-shim-runc-v2", "ctr"}, b.Name) {
			c.Binaries = append(c.Binaries, machine.Binary{Path: "/usr/local/bin/" + b.Name, Digest: b.Digest, Size: b.Size})
		}
	}
	img, err := m.bundle.Image("pause")
	testkit.Must(m.T, err)
	c.Images = []machine.Image{{Refs: []string{img.Ref, "example.org/pause:other"}, Digest: img.Archive.Digest, Size: img.Archive.Size, ID: img.ID}}
	return c
}

// TestRealMachine exercises an agent's whole life on a machine with systemd.
func TestRealMachine(t *testing.T) {
	m := boot(t)
	facts, err := m.d.Facts(t.Context(), m.h)
	testkit.Must(t, err)
	if !facts.Systemd || facts.Address != m.h.Address || facts.Hostname != "gw-1" || facts.OS == "" || facts.MachineID == "" {
		t.Errorf("facts %+v", facts)
	}
	before := m.files()
	m.firstRun()
	m.secondRun()
	m.tellsItsLife()
	m.changes()
	m.failingUnit()
	m.failingHooks()
	m.reset(before)
}

// files lists files that a reset must leave unchanged. Accounts stay, because files of theirs may remain, and their IDs must not be reused.
func (m *realMachine) files() string {
	return m.run("find", "/etc", "/usr/local", "-newermt", "2000-01-01", "-not", "-path", "*/naupegos/agent/*",
		"-not", "-regex", "/etc/\\(passwd\\|group\\|g?shadow\\|\\.pwd\\.lock\\)-?", "-not", "-path", "/etc", "-printf", "%p %m %u %g %l %s\\n")
}

func (m *realMachine) firstRun() {
	c := m.config()
	dry, err := m.d.Apply(m.Context(), m.h, always(c), remote.ApplyOptions{DryRun: true})
	if err != nil || len(dry.Changes) == 0 || dry.Digest != "" {
		m.Errorf("dry run %+v: %v", dry, err)
	}
	if r := m.apply(c); r.Digest != c.Digest() || len(r.Missing) > 0 {
		m.Errorf("report %+v", r)
	}
	if s := m.run("stat", "-c", "%U:%G", "/etc/app"); s != "app:app" {
		m.Errorf("/etc/app belongs to %s", s)
	}
	for _, u := range []string{"containerd", "haproxy", "app"} {
		if s := m.run("systemctl", "show", "--property=ActiveState,UnitFileState,NeedDaemonReload", u+".service"); s != "ActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no" {
			m.Errorf("%s: %s", u, s)
		}
	}
	list := func() string { return m.run("ctr", "-n", "k8s.io", "images", "list") }
	images := list()
	for _, ref := range c.Images[0].Refs {
		if !strings.Contains(images, ref) {
			m.Errorf("%s is not among the images:\n%s", ref, images)
		}
	}
	// containerd's CRI plugin registers them a moment later.
	testkit.Until(m, time.Minute, 100*time.Millisecond, func() error {
		if images = list(); strings.Count(images, "io.cri-containerd.pinned=pinned") != 2 || strings.Count(images, "io.cri-containerd.image=managed") < 2 {
			return fmt.Errorf("images are not pinned, or kubelet would not see them:\n%s", images)
		}
		return nil
	})
}

func (m *realMachine) secondRun() {
	pids := m.run("systemctl", "show", "--property=MainPID", "containerd", "haproxy", "app")
	if r := m.apply(m.config()); len(r.Changes) > 0 {
		m.Errorf("the second run changes %+v", r.Changes)
	}
	if after := m.run("systemctl", "show", "--property=MainPID", "containerd", "haproxy", "app"); after != pids {
		m.Errorf("something was restarted: %s, then %s", pids, after)
	}
}

// tellsItsLife checks, with real systemd and /proc, that the agent reports since when the machine and a unit run, and notices a restart of the unit.
func (m *realMachine) tellsItsLife() {
	before, err := m.d.Life(m.Context(), m.h)
	testkit.Must(m.T, err)
	if boot := m.run("cat", "/proc/sys/kernel/random/boot_id"); before.BootID != boot || boot == "" {
		m.Errorf("the boot ID is %q, want %q", before.BootID, boot)
	}
	const unit = "haproxy.service"
	was := before.Since[unit]
	if age := time.Since(was); age < 0 || age > time.Hour { // same clock: the machine is a container of this host
		m.Errorf("%s runs since %v: %+v", unit, was, before)
	}
	settled := func() error {
		_, err := m.d.Agent(m.Context(), m.h, nil, "settled", "haproxy=/etc/haproxy/haproxy.cfg")
		return err
	}
	testkit.Must(m.T, settled())
	m.run("touch", "/etc/haproxy/haproxy.cfg")
	if err := settled(); fail.KindOf(err) != fail.NotReady {
		m.Errorf("the program is taken for one that was started since: %v", err)
	}
	testkit.Until(m.T, time.Minute, 50*time.Millisecond, func() error { // systemd reports whole seconds
		if time.Since(was) < time.Second {
			return errors.New("the second in which it began is not over")
		}
		return nil
	})
	m.run("systemctl", "restart", unit)
	testkit.Must(m.T, settled())
	after, err := m.d.Life(m.Context(), m.h)
	testkit.Must(m.T, err)
	if !after.Since[unit].After(was) || after.BootID != before.BootID || after.Since["app.service"].Sub(before.Since["app.service"]).Abs() > time.Second {
		m.Errorf("after %s was restarted: %+v, before: %+v", unit, after, before)
	}
}

func (m *realMachine) changes() {
	c := m.config()
	c.Files[0].Content = []byte("two\n")
	c.Files[1].Content = append(c.Files[1].Content, "  maxconn 10\n"...)
	r := m.apply(c)
	var did []string
	for _, ch := range r.Changes {
		if ch.Kind == "unit" {
			did = append(did, ch.Action+" "+ch.Name)
		}
	}
	if want := []string{"reload haproxy.service", "restart app.service"}; !slices.Equal(did, want) {
		m.Errorf("did %q", did)
	}
}

func (m *realMachine) failingUnit() {
	c := m.config()
	c.Units[2].Content = "[Service]\nType=oneshot\nExecStart=/bin/echo giving up on purpose\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"
	_, err := m.d.Apply(m.Context(), m.h, always(c), remote.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "app.service") || !strings.Contains(err.Error(), "giving up on purpose") || fail.Waitable(err) {
		m.Errorf("error %v", err)
	}
	m.apply(m.config())
}

// failingHooks fails after a noisy hook: each error quotes the failed hook's own output.
func (m *realMachine) failingHooks() {
	c := m.config()
	c.Release = "v1.36.4"
	m.apply(c)
	c.Release = "v1.37.2"
	noisy := machine.Hook{When: machine.BeforeUpgrade, Name: "noisy", Script: "seq 100000; echo noise", Seconds: 60}
	late := "p=$(systemctl show --value --property=MainPID systemd-journald); kill -STOP $p; systemd-run --quiet --on-active=2 --timer-property=AccuracySec=100ms kill -CONT $p\n" // the unit has failed when the journal reads its output
	for script, want := range map[string]string{"false": "it printed nothing", "echo the disk is full; exit 3": "the disk is full", late + "echo the disk is full; exit 3": "the disk is full"} {
		c.Hooks = []machine.Hook{noisy, {When: machine.BeforeUpgrade, Name: "fails", Script: script, Seconds: 60}}
		_, err := m.d.Apply(m.Context(), m.h, always(c), remote.ApplyOptions{})
		if err == nil || !strings.Contains(err.Error(), "hook beforeUpgrade fails") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "noise") {
			m.Errorf("%s: %v", script, err)
		}
	}
	m.apply(m.config())
}

func (m *realMachine) reset(before string) {
	_, err := m.d.Agent(m.Context(), m.h, nil, "reset")
	testkit.Must(m.T, err)
	after := m.files()
	was := strings.Split(before, "\n")
	for _, line := range strings.Split(after, "\n") {
		if !slices.Contains(was, line) {
			m.Errorf("left or changed: %s", line)
		}
	}
	for _, line := range was {
		if !strings.Contains(after+"\n", line+"\n") {
			m.Errorf("lost or changed: %s", line)
		}
	}
	if s := m.run("systemctl", "list-units", "--plain", "--no-legend", "--all", "app.service", "containerd.service"); strings.Contains(s, "running") || strings.Contains(s, "failed") {
		m.Errorf("units: %s", s)
	}
}
