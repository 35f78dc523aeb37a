package discover

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// machine is the file system of a machine, as its kernel shows it.
func machine(t *testing.T) host.Root {
	root := host.Root(t.TempDir())
	disk := make([]byte, 512_000)
	copy(disk[512:], "EFI PART")
	copy(disk[1080:], "\x53\xef")
	for path, content := range map[string]string{
		"/sys/class/dmi/id/product_uuid": "B7F5F93A-B029-475F-B3A4-479BA198CB8A\n", "/sys/class/dmi/id/sys_vendor": "QEMU\n", "/proc/sys/kernel/random/boot_id": "618e2763\n",
		"/proc/cmdline": "quiet BOOTIF=01-52-54-00-E8-32-5B\n", "/proc/meminfo": "MemTotal: 2048 kB\n", "/proc/cpuinfo": "processor: 0\nmodel name\t: Fast\n", "/sys/class/ipmi/ipmi0/x": "",
		"/sys/block/nvme0n1/size": "1000\n", "/sys/block/nvme0n1/device/serial": "S1\n", "/sys/block/nvme0n1/device/model": "M\n", "/sys/block/nvme0n1/nvme0n1p1/x": "",
		"/sys/block/loop0/size": "8", "/dev/nvme0n1": string(disk), "/dev/nvme0n1p1": "XFSB", "/sys/firmware/efi/x": "",
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
		testkit.Must(t, os.WriteFile(root.Path(path), []byte(content), 0o644))
	}
	return root
}

func TestLook(t *testing.T) {
	d := testkit.Value(Look(machine(t), ""))(t)
	if d.Boot != (facts.BootInfo{UUID: "b7f5f93a-b029-475f-b3a4-479ba198cb8a", MAC: "52:54:00:e8:32:5b", RandomID: "618e2763"}) {
		t.Errorf("%+v", d.Boot)
	}
	want := []facts.Disk{{Path: "/dev/nvme0n1", SizeBytes: 512_000, Serial: "S1", Model: "M", Type: "nvme", Holds: []string{"gpt", "ext", "xfs"}}}
	if diff := cmp.Diff(want, d.Disks); diff != "" {
		t.Error(diff)
	}
	if s := d.System; s.Manufacturer != "QEMU" || s.CPU != "Fast" || s.MemoryBytes != 2<<20 || s.BMC != "/dev/ipmi0" || s.Firmware != "efi" {
		t.Errorf("%+v", s)
	}
	testkit.Value(facts.Parse(testkit.Value(json.Marshal(d))(t)))(t)
	_, err := Look(host.Root(t.TempDir()), "")
	testkit.Fails(t, err, fail.Refused, "UUID", "has to run as root")
	dummy := machine(t)
	testkit.Must(t, os.WriteFile(dummy.Path("/sys/class/dmi/id/product_uuid"), []byte("03000200-0400-0500-0006-000700080009\n"), 0o600))
	_, err = Look(dummy, "")
	if testkit.Fails(t, err, fail.Refused, "not a machine's own", "set one in the machine's firmware"); strings.Contains(err.Error(), "root") {
		t.Errorf("the hint is of another error: %v", err)
	}
	if g := defaultGateways("Iface\tDestination\tGateway\neth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"); g["eth0"] != "10.0.0.1" {
		t.Errorf("%v", g)
	}
}

// frame is one of a switch.
func frame(tlvs ...string) []byte {
	b := []byte("\x01\x80\xc2\x00\x00\x0e\x28\xf1\x0e\x12\x20\x00\x88\xcc")
	for _, t := range tlvs {
		head := uint16(t[0])<<9 | uint16(len(t)-1)
		b = append(append(b, byte(head>>8), byte(head)), t[1:]...)
	}
	return b
}

func TestLLDP(t *testing.T) {
	n, err := parseLLDP(frame("\x01\x04\x28\xf1\x0e\x12\x20\x00", "\x02\x05Eth1/7", "\x03\x00\x78", "\x04to the rack", "\x05<script>", "\x00"))
	want := facts.Neighbour{Port: facts.Port{ID: "Eth1/7", Description: "to the rack"}, Chassis: facts.Chassis{ID: "28:f1:0e:12:20:00", Name: "<script>"}}
	if d := cmp.Diff(want, n); d != "" || err != nil {
		t.Error(d, err)
	}
	if n, err := parseLLDP(frame("\x01\x05\x01\x0a\x00\x00\x01", "\x02\x03\x52\x54\x00\x00\x00\x01")); err != nil || n.Chassis.ID != "10.0.0.1" || n.Port.ID != "52:54:00:00:00:01" {
		t.Errorf("%+v, %v", n, err)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "no LLDP": make([]byte, 60), "no port": frame("\x01\x04\x28\xf1\x0e\x12\x20\x00", "\x00"), "cut off": append(frame(), 0x03, 0xff, 1)} {
		if _, err := parseLLDP(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if n, err := Listen(t.Context(), nil); err != nil || len(n) != 0 {
		t.Errorf("%v, %v", n, err)
	}
}

func FuzzLLDP(f *testing.F) {
	f.Add(frame("\x01\x04\x28\xf1\x0e\x12\x20\x00", "\x02\x05Eth1/7", "\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseLLDP(data)
		if err == nil && (n.Chassis.ID == "" || n.Port.ID == "") {
			t.Fatalf("%+v", n)
		}
	})
}

// TestEnrol: the server is unreachable first, then says pending, then approves.
func TestEnrol(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key := testkit.Value(Key(path))(t)
	if again := testkit.Value(Key(path))(t); !again.Equal(key) {
		t.Error("the key is another one the next time")
	}
	asked, last, status := 0, int64(0), 503
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := testkit.Value(io.ReadAll(r.Body))(t)
		d := testkit.Value(facts.Parse(body))(t)
		if _, print, err := d.Enrolment.Key(d.Boot.UUID, body, r.Header.Get(facts.SignatureHeader)); err != nil || print != facts.Fingerprint(key.Public()) || d.Enrolment.Sequence <= last {
			t.Errorf("%s, %d after %d, %v", print, d.Enrolment.Sequence, last, err)
		}
		last = d.Enrolment.Sequence
		asked++
		switch asked {
		case 1:
			w.WriteHeader(status)
		case 2:
			_, _ = io.WriteString(w, `{"approval": "pending", "time": "2026-01-02T03:04:05Z"}`)
		default:
			_, _ = io.WriteString(w, `{"approval": "approved", "proven": true, "certificate": "C", "time": "2026-01-02T03:04:05Z"}`)
		}
	}))
	t.Cleanup(s.Close)
	d := testkit.Value(Look(machine(t), ""))(t)
	var said []string
	var clock time.Time
	o := Options{Server: s.URL, Pause: time.Millisecond, Say: func(text string) { said = append(said, text) }, Clock: func(at time.Time) error { clock = at; return nil }}
	e, err := Enrol(t.Context(), d, key, o)
	if err != nil || e.Certificate != "C" || asked != 3 || clock.Year() != 2026 || !strings.Contains(strings.Join(said, "\n"), facts.Fingerprint(key.Public())) {
		t.Errorf("%+v, %v, %d, %q", e, err, asked, said)
	}
	asked, status = 0, 409
	_, err = Enrol(t.Context(), d, key, o)
	testkit.Fails(t, err, fail.Conflict)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.Server, o.Pause = "http://127.0.0.1:1", time.Hour
	_, err = Enrol(ctx, d, key, o)
	testkit.Fails(t, err, fail.NotReady, "approve")
}
