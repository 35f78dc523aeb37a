package bed

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// TestPackages compares the packages that hack/setup installs with those that the bed needs.
func TestPackages(t *testing.T) {
	data, err := os.ReadFile("../../../hack/setup")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)\nopenstack=\((.*?)\)`).FindSubmatch(data)
	if m == nil {
		t.Fatal("hack/setup has no list of OpenStack's packages")
	}
	if got := strings.Fields(string(m[1])); !slices.Equal(got, Packages) {
		t.Errorf("hack/setup installs %v\nthe bed needs        %v", got, Packages)
	}
}

func testBed(t *testing.T) *Bed {
	t.Helper()
	b, err := open(Options{Root: t.TempDir(), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{b.run(), b.state(), b.LogDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestRender(t *testing.T) {
	b := testBed(t)
	if err := b.loadSecrets(); err != nil {
		t.Fatal(err)
	}
	files, err := render(b.settings())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(configs) {
		t.Fatalf("%d files, want %d", len(files), len(configs))
	}
	for name, text := range files {
		if strings.Contains(string(text), "<no value>") || len(text) < 100 {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{
		"nova.conf":     "connection = mysql+pymysql://nova:" + b.secrets.Database + "@127.0.0.1:23306/nova_api?charset=utf8",
		"neutron.conf":  "username = neutron\npassword = " + b.secrets.Service + "\nregion_name = RegionOne\nservice_type = network\n",
		"octavia.conf":  "transport_url = rabbit://naupegos:" + b.secrets.Broker + "@127.0.0.1:25672/",
		"cinder.conf":   "auth_url = http://192.0.2.10:5000/v3",
		"keystone.conf": "[fernet_receipts]\nkey_repository = " + b.state() + "/keystone/fernet\n",
		"rabbitmq.conf": "default_pass = " + b.secrets.Broker,
	} {
		if !bytes.Contains(files[name], []byte(want)) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
}

// TestSecrets checks that the secrets are created only once and that no service gets one as an argument.
func TestSecrets(t *testing.T) {
	b := testBed(t)
	if err := b.loadSecrets(); err != nil {
		t.Fatal(err)
	}
	made := b.secrets
	if err := b.loadSecrets(); err != nil || b.secrets != made {
		t.Errorf("secrets changed, or %v", err)
	}
	if info, err := os.Stat(b.secretsFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, s := range b.services() {
		for _, secret := range []string{made.Admin, made.User, made.Service, made.Database, made.Broker, made.Metadata, made.Heartbeat} {
			if len(secret) != 32 || strings.Contains(strings.Join(append(s.args, s.env...), " "), secret) {
				t.Errorf("%s has secret %q among its arguments", s.Name, secret)
			}
		}
	}
}

// TestServiceOrder checks that every service comes after its dependencies.
func TestServiceOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range testBed(t).all {
		for _, need := range s.needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which comes later or never", s.Name, need)
			}
		}
		seen[s.Name] = true
	}
}

// fake returns a service that runs a shell with children instead of OpenStack.
func fake(b *Bed, script string) *Service {
	return &Service{Name: "fake", b: b, args: []string{"/bin/sh", "-c", script}, ready: func(context.Context) (bool, error) { return true, nil }}
}

func TestServiceLife(t *testing.T) {
	b := testBed(t)
	s := fake(b, "sleep 1000 & sleep 1000 & wait")
	if s.Running() {
		t.Fatal("the service runs before it was started")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := readProcess(b.record("fake"))
	if err != nil || !p.alive() {
		t.Fatal(p, err)
	}
	if err := tool.Until(t.Context(), time.Millisecond, func() (bool, error) { return len(p.members()) == 3, nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := readProcess(b.record("fake")); err != nil || again != p {
		t.Errorf("a second start replaced the process: %v %v, %v", p, again, err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := p.members(); len(left) > 0 || s.Running() {
		t.Errorf("left after Stop: %v", left)
	}
}

// TestOrphans checks that a start ends the workers of a leader that was killed.
func TestOrphans(t *testing.T) {
	b := testBed(t)
	s := fake(b, "sleep 1000 & sleep 1000 & wait")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	p, err := readProcess(b.record("fake"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Until(t.Context(), time.Millisecond, func() (bool, error) { return len(p.members()) == 3, nil }); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := tool.Until(t.Context(), time.Millisecond, func() (bool, error) { return !p.alive(), nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(p.members()); n != 2 {
		t.Fatalf("%d workers of the killed leader are left, want 2", n)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := p.members(); len(left) > 0 {
		t.Errorf("workers of the killed leader are still alive: %v", left)
	}
}

func TestServiceDies(t *testing.T) {
	b := testBed(t)
	s := fake(b, "echo no such table >&2; exit 1")
	s.ready = func(context.Context) (bool, error) { return false, nil }
	err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "fake ended by itself; its last words: no such table") || !strings.Contains(err.Error(), s.LogFile()) {
		t.Errorf("%v", err)
	}
}

func TestServiceLogs(t *testing.T) {
	for fresh, lines := range map[bool]int{false: 2, true: 1} {
		b := testBed(t)
		s := fake(b, "echo said; exec sleep 1000")
		s.fresh = fresh
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		for _, want := range []int{1, lines} {
			s.ready = func(context.Context) (bool, error) {
				log, err := os.ReadFile(s.LogFile())
				return strings.Count(string(log), "said\n") == want, err
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := errors.Join(s.Start(ctx), s.Stop(ctx)); err != nil {
				t.Fatalf("the log (truncated at start: %t) does not have %d lines: %v", fresh, want, err)
			}
		}
	}
}

func TestServiceNotReady(t *testing.T) {
	b := testBed(t)
	s := fake(b, "echo no keys; exec sleep 1000")
	s.ready = func(context.Context) (bool, error) { return false, nil }
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Start(ctx); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "wait until fake serves; its last words: no keys") {
		t.Errorf("%v", err)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	b := testBed(t)
	s := fake(b, "exec sleep 1000")
	s.ports = []string{l.Addr().String()}
	err = s.Start(t.Context())
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "is taken by process ") || !strings.Contains(err.Error(), "("+strings.TrimSpace(string(self))+")") {
		t.Errorf("%v", err)
	}
	if s.Running() {
		t.Error("the service was started anyway")
	}
}

func TestConnectedTo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if connectedTo(os.Getpid(), port) {
		t.Error("a connection is reported before there is one")
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !connectedTo(os.Getpid(), port) {
		t.Error("the connection is not reported")
	}
}

func TestProcessOfAnotherBoot(t *testing.T) {
	p, err := describe(os.Getpid())
	if err != nil || !p.alive() {
		t.Fatal(p, err)
	}
	if p.Boot = "another"; p.alive() || p.members() != nil {
		t.Error("a process of another boot counts as alive")
	}
	p, _ = describe(os.Getpid())
	if p.Start++; p.alive() || p.members() != nil {
		t.Error("a process with another start time counts as alive")
	}
	since, err := startedAt(process{Start: 0})
	if err != nil || time.Since(since) < 0 {
		t.Errorf("booted at %s, %v", since, err)
	}
}

// TestPlugins compiles the Python plugins that replace the hardware.
func TestPlugins(t *testing.T) {
	b := testBed(t)
	if err := writePlugins(b); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(b.plugins(), "naupegos_bed", "*.py"))
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Logf("no python3 here: %v; the openstack tests run them", err)
		return
	}
	if out, err := exec.Command(python, append([]string{"-m", "py_compile"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOptions(t *testing.T) {
	t.Setenv(RootVariable, "/x")
	t.Setenv(AddressVariable, "")
	o, err := Options{}.withDefaults()
	if err != nil || o.Root != "/x" || o.Address != DefaultAddress || o.Timeout != 15*time.Minute {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range []Options{{Root: "relative"}, {Address: "example.org"}} {
		if _, err := bad.withDefaults(); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := Open(Options{Root: t.TempDir()}); fail.KindOf(err) != fail.NotFound {
		t.Errorf("Open where nothing runs: %v", err)
	}
}

// TestPurge checks that purging keeps the files of others in the state directory.
func TestPurge(t *testing.T) {
	b := testBed(t)
	if err := b.loadSecrets(); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(b.Root(), "runner", "state.json")
	if err := write(others, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), Options{Root: b.Root()}, true); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(b.Root())
	if err != nil || len(left) != 1 || left[0].Name() != "runner" {
		t.Errorf("files left: %v %v", left, err)
	}
	if err := os.RemoveAll(filepath.Dir(others)); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), Options{Root: b.Root()}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.Root()); !os.IsNotExist(err) {
		t.Errorf("an empty state directory was not removed: %v", err)
	}
}

// TestLockMakesDirectories checks that services of other users can traverse a state directory that lock created.
func TestLockMakesDirectories(t *testing.T) {
	above := filepath.Join(t.TempDir(), "lib", "naupegos")
	b, err := open(Options{Root: filepath.Join(above, "openstack"), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	release, err := b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for path, want := range map[string]os.FileMode{above: 0o755, b.Root(): 0o711, b.run(): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want mode %o", path, info, err, want)
		}
	}
}
