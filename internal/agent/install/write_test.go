package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// shaky is a server that disconnects after a number of bytes of each request.
type shaky struct {
	data   []byte
	breaks int  // bytes until it disconnects; 0: never
	whole  bool // it ignores ranges, and disconnects only once
	lost   bool // it does not come back
	away   int  // number of first requests that it does not answer
	asked  []int64
	err    error
}

func (s *shaky) File(_ context.Context, _ string, offset int64) (io.ReadCloser, int64, error) {
	s.asked = append(s.asked, offset)
	if s.err != nil {
		return nil, 0, s.err
	}
	if s.away > 0 {
		s.away--
		return nil, 0, fail.New(fail.Unreachable, "away")
	}
	if s.whole {
		offset = 0
		if len(s.asked) > 1 {
			s.breaks = 0
		}
	}
	rest := s.data[offset:]
	if s.breaks > 0 && len(rest) > s.breaks {
		return io.NopCloser(io.MultiReader(bytes.NewReader(rest[:s.breaks]), broken{})), offset, nil
	}
	return io.NopCloser(bytes.NewReader(rest)), offset, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// image is the image of a file system: noise, a hole, noise.
func image(t *testing.T) (raw, packed []byte, b order.Blob) {
	t.Helper()
	r := rand.NewChaCha8([32]byte{1})
	raw = make([]byte, 5*chunk+4096)
	testkit.Value(r.Read(raw[:chunk+7]))(t)
	testkit.Value(r.Read(raw[4*chunk:]))(t)
	z := testkit.Value(zstd.NewWriter(nil))(t)
	packed = z.EncodeAll(raw, nil)
	return raw, packed, blobOf(raw, packed)
}

func blobOf(raw, packed []byte) order.Blob {
	a, b := sha256.Sum256(packed), sha256.Sum256(raw)
	return order.Blob{Path: "/assets/x", SHA256: hex.EncodeToString(a[:]), Size: int64(len(packed)), RawSHA256: hex.EncodeToString(b[:]), RawSize: int64(len(raw))}
}

// target is a device with earlier content.
func target(t *testing.T, size int) string {
	path := filepath.Join(t.TempDir(), "device")
	testkit.Must(t, os.WriteFile(path, bytes.Repeat([]byte{0xaa}, size), 0o600))
	return path
}

func fetch(t *testing.T, s *shaky, b order.Blob, dev string) error {
	t.Helper()
	st := newStream(t.Context(), s, b, func(text string) { t.Log(text) })
	st.pause = time.Millisecond
	if s.lost {
		st.patience = 200 * time.Millisecond
	}
	f := testkit.Value(os.OpenFile(dev, os.O_RDWR, 0))(t)
	defer f.Close()
	defer st.Close()
	return write(st, b, f, func(int64) error { return nil })
}

// TestWrite: the server disconnects and returns, and the device has the image, including holes.
func TestWrite(t *testing.T) {
	raw, packed, b := image(t)
	for name, s := range map[string]*shaky{
		"at once": {}, "in pieces": {breaks: 300 << 10}, "without ranges": {breaks: len(packed) - 1000, whole: true}, "away at first": {away: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s.data = packed
			dev := target(t, len(raw)+chunk)
			testkit.Must(t, fetch(t, s, b, dev))
			got := testkit.Value(os.ReadFile(dev))(t)
			if !bytes.Equal(got[:len(raw)], raw) || got[len(raw)] != 0xaa {
				t.Error("the device has something else")
			}
			if name == "in pieces" && (len(s.asked) < 3 || s.asked[1] != 300<<10) {
				t.Errorf("asked for %v", s.asked)
			}
		})
	}
}

// TestWriteRefuses: write never accepts anything but the image.
func TestWriteRefuses(t *testing.T) {
	raw, packed, good := image(t)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 1
	otherRaw := bytes.Clone(raw)
	otherRaw[3] ^= 1
	z := testkit.Value(zstd.NewWriter(nil))(t)
	otherPacked := z.EncodeAll(otherRaw, nil)
	small, large, cut := good, good, blobOf(raw, packed[:len(packed)-10])
	small.RawSize, large.RawSize = good.RawSize-1, good.RawSize+1
	more := append(bytes.Clone(packed), packed...)
	twice := blobOf(raw, more)
	for name, c := range map[string]struct {
		s    shaky
		b    order.Blob
		kind fail.Kind
		word string
	}{
		"a bit is flipped":       {shaky{data: flipped}, good, fail.Conflict, ""},
		"another file":           {shaky{data: otherPacked}, good, 0, ""},
		"cut off, as announced":  {shaky{data: packed[:len(packed)-10]}, cut, fail.Conflict, "unpack"},
		"cut off":                {shaky{data: packed[:len(packed)-10], lost: true}, good, fail.Unreachable, "nothing came"},
		"more than announced":    {shaky{data: packed}, small, fail.Conflict, "larger"},
		"less than announced":    {shaky{data: packed}, large, fail.Conflict, "unpacks"},
		"something behind":       {shaky{data: more}, twice, fail.Conflict, ""},
		"the server has no such": {shaky{err: fail.New(fail.NotFound, "404")}, good, fail.NotFound, "404"},
		"the server stays away":  {shaky{lost: true, err: fail.New(fail.Unreachable, "gone")}, good, fail.Unreachable, "gone"},
		"it forbids":             {shaky{err: fail.New(fail.Refused, "403")}, good, fail.Refused, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			err := fetch(t, &c.s, c.b, target(t, 2*len(raw)+chunk))
			if err == nil || c.kind != 0 && fail.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%v: %v", fail.KindOf(err), err)
			}
		})
	}
}

// lossy is a disk that stores something else than was written.
type lossy struct{ *os.File }

func (l lossy) ReadAt(p []byte, at int64) (int, error) {
	n, err := l.File.ReadAt(p, at)
	if at == 0 && n > 5 {
		p[5] ^= 1
	}
	return n, err
}

// failing is a disk that fails certain operations.
type failing struct {
	*os.File
	write, read, sync bool
}

func (f failing) WriteAt(p []byte, at int64) (int, error) {
	if f.write && at > 0 {
		return 0, syscall.EIO
	}
	return f.File.WriteAt(p, at)
}

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if f.read && at > 0 {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, at)
}

func (f failing) Sync() error {
	if f.sync {
		return syscall.EIO
	}
	return f.File.Sync()
}

// TestFailingDisk: the error of a disk that fails during an installation says so, and names the failed operation.
func TestFailingDisk(t *testing.T) {
	raw, packed, b := image(t)
	f := testkit.Value(os.OpenFile(target(t, len(raw)), os.O_RDWR, 0))(t)
	defer f.Close()
	for word, disk := range map[string]failing{"write " + b.Path + " at byte": {f, true, false, false}, "back from the disk": {f, false, true, false}, "flush ": {f, false, false, true}} {
		err := write(bytes.NewReader(packed), b, disk, func(int64) error { return nil })
		testkit.Fails(t, err, fail.Refused, word, "input/output error", "the disk may be failing")
	}
}

func TestVerify(t *testing.T) {
	raw, packed, b := image(t)
	f := testkit.Value(os.OpenFile(target(t, len(raw)), os.O_RDWR, 0))(t)
	defer f.Close()
	testkit.Fails(t, write(bytes.NewReader(packed), b, lossy{f}, func(int64) error { return nil }), fail.Refused, "gives back")
	stop := fail.New(fail.Conflict, "the authorization has ended")
	testkit.Fails(t, write(bytes.NewReader(packed), b, f, func(int64) error { return stop }), fail.Conflict, "authorization")
}

// TestHead: headOf writes a disk's beginning except for its partition table.
func TestHead(t *testing.T) {
	raw := bytes.Repeat([]byte{1}, int(slots.BIOSStart)+2*chunk)
	for i := slots.BootCode; i < slots.BIOSStart; i++ {
		raw[i] = 0
	}
	packed := testkit.Value(zstd.NewWriter(nil))(t).EncodeAll(raw, nil)
	f := testkit.Value(os.OpenFile(target(t, len(raw)), os.O_RDWR, 0))(t)
	defer f.Close()
	testkit.Must(t, write(bytes.NewReader(packed), blobOf(raw, packed), headOf{f}, func(int64) error { return nil }))
	got := testkit.Value(os.ReadFile(f.Name()))(t)
	if got[slots.BootCode-1] != 1 || got[slots.BootCode] != 0xaa || got[slots.BIOSStart-1] != 0xaa || got[slots.BIOSStart] != 1 || got[len(got)-1] != 1 {
		t.Errorf("%x %x %x", got[slots.BootCode-1:slots.BootCode+1], got[slots.BIOSStart-1:slots.BIOSStart+1], got[len(got)-1])
	}
}

func TestSeat(t *testing.T) {
	root := t.TempDir()
	o := &order.Order{Schema: order.Schema, UUID: "b7f5f93a-b029-475f-b3a4-479ba198cb8a", Hostname: "m-1", SSHKeys: []string{"ssh-ed25519 A"}, UserData: "#cloud-config\n"}
	testkit.Must(t, seat(root, o, Partitions{Slot: "s", ESP: "e", State: "t"}, "52:54:00:00:00:01"))
	for path, word := range map[string]string{
		"/etc/hostname": "m-1", "/etc/fstab": "PARTUUID=t " + StateDir, "/root/.ssh/authorized_keys": "ssh-ed25519 A", "/etc/systemd/network/10-naupegos.network": "DHCP=yes",
		"/var/lib/cloud/seed/nocloud/meta-data": "instance-id: b7f5", InstalledFile: "m-1", "/etc/systemd/system/naupegos-trial.timer.d/50-time.conf": "OnBootSec=900s",
	} {
		if text := string(testkit.Value(os.ReadFile(root + path))(t)); !strings.Contains(text, word) {
			t.Errorf("%s: %s", path, text)
		}
	}
	p := testkit.Value(partitionsOf(root + "/etc/fstab"))(t)
	if p != (Partitions{"s", "e", "t"}) {
		t.Errorf("%+v", p)
	}
	o.Network = []order.Interface{{MAC: "52:54:00:00:00:02", Addresses: []string{"10.0.0.5/24"}, Gateway: "10.0.0.1", DNS: []string{"10.0.0.2"}}}
	want := "[Match]\nMACAddress=52:54:00:00:00:02\n\n[Network]\nAddress=10.0.0.5/24\nGateway=10.0.0.1\nDNS=10.0.0.2\n"
	if got := networkFiles(o, "x")["10-naupegos-0.network"]; got != want {
		t.Error(got)
	}
	if slot, trial := Running("root=x naupegos.slot=b naupegos.trial=1"); slot != slots.B || !trial {
		t.Errorf("%s %v", slot, trial)
	}
}

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	_, err := LoadIdentity(dir)
	testkit.Fails(t, err, fail.NotFound)
	key := testkit.Value(facts.NewKey())(t)
	testkit.Must(t, SaveIdentity(dir, Identity{UUID: "u", Key: key, Server: "https://x"}))
	if st := testkit.Value(os.Stat(filepath.Join(dir, IdentityFile)))(t); st.Mode().Perm() != 0o600 {
		t.Errorf("%o", st.Mode())
	}
	if id := testkit.Value(LoadIdentity(dir))(t); !id.Key.Equal(key) || id.UUID != "u" {
		t.Errorf("%+v", id.UUID)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, IdentityFile), []byte(`{"key":"secret`), 0o600))
	if _, err = LoadIdentity(dir); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestCarry: carry copies the applied configuration, but not the slot's own files.
func TestCarry(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		"/etc/machine-id": "m", "/etc/ssh/ssh_host_ed25519_key": "k", "/etc/kubernetes/admin.conf": "a", "/etc/systemd/system/kubelet.service": "u", "/etc/fstab": "f", "/opt/x": "x",
		"/var/lib/naupegos/blobs/sha256/ab": "blob", "/var/lib/naupegos/blobs/sha256/cd": "not wanted", "/var/lib/etcd/member": "e",
		"/var/lib/naupegos/agent/state.json": `{"paths":{"/etc/systemd/system/kubelet.service":{"kind":"file"},"/opt/x":{"kind":"binary"},"/etc":{"kind":"directory"},"/var/lib/etcd/member":{"kind":"file"}},"units":{"kubelet.service":{}},"blobs":["sha256:ab"]}`,
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(from+path), 0o755))
		testkit.Must(t, os.WriteFile(from+path, []byte(text), 0o640))
	}
	wants := "/etc/systemd/system/multi-user.target.wants/"
	testkit.Must(t, os.MkdirAll(from+wants, 0o755))
	testkit.Must(t, os.Symlink("/etc/systemd/system/kubelet.service", from+wants+"kubelet.service"))
	testkit.Must(t, carry(t.Context(), from, to))
	for _, path := range []string{"/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key", "/etc/kubernetes/admin.conf", "/etc/systemd/system/kubelet.service", wants + "kubelet.service", "/opt/x",
		"/var/lib/naupegos/blobs/sha256/ab", "/var/lib/naupegos/agent/state.json"} {
		if st, err := os.Lstat(to + path); err != nil || st.Mode().IsRegular() && st.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/etc/fstab", "/var/lib/etcd/member", "/var/lib/naupegos/blobs/sha256/cd"} {
		if _, err := os.Lstat(to + path); err == nil {
			t.Errorf("%s went along", path)
		}
	}
	testkit.Must(t, carry(t.Context(), t.TempDir(), to)) // a machine without an applied configuration
}
