package shared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// fakeHost is a host's settings in a directory.
type fakeHost struct {
	t *testing.T
	hostSettings
}

const (
	perNetwork = "net/ipv4/ip_forward"
	perKernel  = "fs/inotify/max_user_instances"
)

// newFakeHost returns a host with the kernel's defaults.
func newFakeHost(t *testing.T) fakeHost {
	dir := t.TempDir()
	h := fakeHost{t, hostSettings{
		proc: filepath.Join(dir, "proc"), file: filepath.Join(dir, "run", "settings.json"), boot: "this boot", network: "1",
		minimums: map[string]int{perNetwork: 1, perKernel: 2048},
	}}
	testkit.Must(t, os.Mkdir(filepath.Dir(h.file), 0o755))
	h.set(perNetwork, "0")
	h.set(perKernel, "128")
	return h
}

func (h fakeHost) set(name, value string) {
	h.t.Helper()
	testkit.Must(h.t, os.MkdirAll(filepath.Join(h.proc, filepath.Dir(name)), 0o755))
	testkit.Must(h.t, os.WriteFile(filepath.Join(h.proc, name), []byte(value+"\n"), 0o644))
}

func (h fakeHost) is(forward, instances string) {
	h.t.Helper()
	for name, want := range map[string]string{perNetwork: forward, perKernel: instances} {
		if now, err := h.now(name); err != nil || now != want {
			h.t.Errorf("%s is %s (%v), want %s", name, now, err, want)
		}
	}
}

func (h fakeHost) raised()           { h.t.Helper(); testkit.Must(h.t, h.raise()) }
func (h fakeHost) restored(used use) { h.t.Helper(); testkit.Must(h.t, h.restore(used)) }

// forgotten fails if a record still exists.
func (h fakeHost) forgotten() {
	h.t.Helper()
	if data, err := os.ReadFile(h.file); err == nil {
		h.t.Errorf("the record is still there: %s", data)
	}
}

var nobody = use{}

func TestSettingsGoBackWithTheLastUser(t *testing.T) {
	h := newFakeHost(t)
	h.raised()
	h.raised() // by another state root; must not overwrite the original value
	h.is("1", "2048")
	h.restored(use{network: true, machines: true})
	h.restored(use{network: true}) // a network whose machines do not exist yet
	h.is("1", "2048")
	h.restored(use{machines: true}) // in another network namespace
	h.is("0", "2048")
	h.restored(nobody)
	h.is("0", "128")
	h.forgotten()
	h.restored(nobody)
	h.is("0", "128")
}

func TestSettingsThatOthersChanged(t *testing.T) {
	h := newFakeHost(t)
	h.set(perNetwork, "1") // before
	h.raised()
	h.set(perKernel, "4096") // in the meantime, to a higher value
	h.restored(nobody)
	h.is("1", "4096")
	h.forgotten()

	h.set(perKernel, "128")
	h.raised()
	h.set(perKernel, "512") // in the meantime, to less than machines need
	h.raised()
	h.is("1", "2048")
	h.restored(nobody)
	h.is("1", "512")
}

func TestSettingsRaisedTwice(t *testing.T) {
	h := newFakeHost(t)
	h.raised()
	h.minimums = map[string]int{perNetwork: 1, perKernel: 8192} // of a later version
	h.raised()
	h.is("1", "8192")
	h.restored(nobody)
	h.is("0", "128")
}

// TestSettingsAfterCrash: the command dies between two writes.
func TestSettingsAfterCrash(t *testing.T) {
	h := newFakeHost(t)
	h.raised()
	h.set(perNetwork, "0") // died after the record, before the setting
	h.set(perKernel, "128")
	h.raised()
	h.is("1", "2048")
	h.set(perNetwork, "0") // died after restoring one setting and before removing its record
	h.restored(nobody)
	h.is("0", "128")
	h.forgotten()
}

// TestSettingsAfterReboot uses the record of a former boot, as on hosts with /run on a disk.
func TestSettingsAfterReboot(t *testing.T) {
	h := newFakeHost(t)
	h.raised()
	h.boot = "the next boot"
	h.set(perKernel, "2048") // now by the host's own configuration
	h.set(perNetwork, "1")
	h.restored(nobody)
	h.is("1", "2048")
	h.set(perNetwork, "0")
	h.raised()
	h.restored(nobody)
	h.is("0", "2048")
}

// TestSettingsOfNetworkNamespaces: two namespaces share a record, and each has its own setting.
func TestSettingsOfNetworkNamespaces(t *testing.T) {
	h := newFakeHost(t)
	h.raised()
	other := h
	other.network, other.proc = "2", filepath.Join(t.TempDir(), "proc")
	other.set(perNetwork, "0")
	other.set(perKernel, "2048")
	other.raised()
	other.restored(use{machines: true}) // h's
	other.is("0", "2048")
	h.is("1", "2048")
	h.restored(nobody)
	h.is("0", "128")
	h.forgotten()
}

func TestSettingsAreDescribed(t *testing.T) {
	low, err := newFakeHost(t).low()
	testkit.Must(t, err)
	want := "host setting fs.inotify.max_user_instances: 128 → 2048\nhost setting net.ipv4.ip_forward: 0 → 1"
	if got := strings.Join(Describe(low), "\n"); got != want {
		t.Errorf("%s", got)
	}
}

func TestNetworkNamespaceHasAName(t *testing.T) {
	a, err := networkNamespace()
	testkit.Must(t, err)
	b, err := networkNamespace()
	if err != nil || a == "" || a != b {
		t.Errorf("%q and %q: %v", a, b, err)
	}
}
