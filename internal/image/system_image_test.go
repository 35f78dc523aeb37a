//go:build image

package image

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/registry/routes"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/tool"
)

const (
	slotMachine = "b7f5f93a-b029-475f-b3a4-479ba198cb8a"
	slotMAC     = "52:54:00:e8:32:5b"
)

// slotSite is a server that installs one machine, and the machine's disk.
type slotSite struct {
	t        *testing.T
	dir      string
	url      string // as the host reaches it
	port     string
	ca       []byte
	registry *registry.Registry
	key      *ecdsa.PrivateKey
	cert     []byte
	good     order.System
	bad      order.System // its kernel starts, and finds no init
}

type slotIssuer struct{ ca *authority.Authority }

func (i slotIssuer) IssueMachine(uuid string, public any) ([]byte, error) {
	der, err := i.ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: uuid}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, public, time.Hour)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// TestSlots installs a machine from an order, by a real server, with the host's sfdisk onto a loop device; boots it from that disk with BIOS and
// with UEFI and secure boot; gives it a system that does not come up, which it leaves by itself; and then one that does.
func TestSlots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("making images needs root")
	}
	s := newSlotSite(t)
	disk := filepath.Join(s.dir, "disk")
	s.install(disk)
	t.Run("uefi", func(t *testing.T) {
		vars := filepath.Join(t.TempDir(), "vars.fd")
		testkit.Must(t, os.WriteFile(vars, testkit.Value(os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd"))(t), 0o600))
		m := s.boot(t, disk, true, "-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "-drive", "if=pflash,format=raw,unit=1,file="+vars)
		s.until(t, m, "a", s.order("m-1", s.good).Digest(), "")
	})
	t.Run("bios", func(t *testing.T) {
		m := s.boot(t, disk, false)
		s.until(t, m, "a", s.order("m-1", s.good).Digest(), "")
		testkit.Value(s.registry.SetStrategy(t.Context(), slotMachine, "reboot"))(t)
		bad := s.order("m-1", s.bad)
		s.want(bad)
		s.until(t, m, "a", s.order("m-1", s.good).Digest(), bad.Digest())
		if log := m.console(); !strings.Contains(log, "naupegos.slot=b naupegos.trial=1") || !strings.Contains(log, "anic") {
			t.Error("the bad system was not tried")
		}
		next := s.order("m-2", s.good)
		s.want(next)
		s.until(t, m, "b", next.Digest(), "")
		if held := testkit.Value(s.registry.Holders(t.Context()))(t); len(held) > 0 {
			testkit.Until(t, 5*time.Minute, time.Second, testkit.That("the machine gives its place back", func() bool {
				held, err := s.registry.Holders(t.Context())
				return err == nil && len(held) == 0
			}))
		}
	})
}

func newSlotSite(t *testing.T) *slotSite {
	s := &slotSite{t: t, dir: testkit.Value(os.MkdirTemp("/var/tmp", "naupegos-slots-test-"))(t)}
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(s.dir)) })
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: filepath.Join(s.dir, "state")}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	own, machines := testkit.Value(authority.Open(t.Context(), st.ServerSecrets(), "server"))(t), testkit.Value(authority.Open(t.Context(), st.ServerSecrets(), "machines"))(t)
	log := slog.New(slog.DiscardHandler)
	s.ca, s.registry = own.PEM(), registry.New(st.Metal(), registry.Options{Issuer: slotIssuer{machines}})
	assets := http.StripPrefix("/assets/", http.FileServer(http.Dir(s.dir)))
	srv := testkit.Value(server.Listen(t.Context(), server.Config{
		ListenHTTP: "127.0.0.1:0", ListenHTTPS: "127.0.0.1:0", Serving: testkit.Value(own.Serve([]string{"10.0.2.2"}, log))(t), Clients: machines.Pool(), Log: log,
		Ping: func(context.Context) error { return nil },
		Parts: []server.Part{{Name: "machines", Mounts: append(routes.Mounts(routes.Options{Registry: s.registry}),
			server.Mount{Pattern: "/assets/", Handler: assets, On: server.Boot, Stream: true})}},
	}))(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() { stop(); testkit.Must(t, <-done) })
	s.url = "https://" + srv.Addresses().HTTPS
	s.port = s.url[strings.LastIndexByte(s.url, ':')+1:]
	s.enrol()
	began := time.Now()
	agent := testkit.Value(filepath.Abs("../../bin/naupegos-agent"))(t)
	made := testkit.Value(BuildSystem(t.Context(), Options{Agent: agent, Version: "test", Output: filepath.Join(s.dir, "systems"), Progress: noted{t}}))(t)
	t.Logf("made in %v: %+v", time.Since(began).Round(time.Second), *made)
	s.good = *made
	if again := testkit.Value(Systems(filepath.Join(s.dir, "systems")))(t); len(again) != 1 || again[0] != s.good {
		t.Errorf("%+v", again)
	}
	s.makeBad()
	return s
}

// enrol has the machine be known and approved.
func (s *slotSite) enrol() {
	t := s.t
	s.key = testkit.Value(facts.NewKey())(t)
	d := facts.Discovery{Boot: facts.BootInfo{UUID: slotMachine, MAC: slotMAC, RandomID: "boot-1"}, Interfaces: []facts.Interface{{Name: "eth0", MAC: slotMAC}},
		Journal: []string{}, LLDP: facts.LLDP{Data: facts.LLDPData{Interfaces: []facts.Neighbour{}}},
		Disks: []facts.Disk{}, Enrolment: &facts.Enrolment{Request: testkit.Value(facts.NewRequest(s.key, slotMachine))(t)}}
	for n := range 2 {
		d.Enrolment.Sequence = int64(n + 1)
		body := testkit.Value(json.Marshal(d))(t)
		out := testkit.Value(s.registry.Discover(t.Context(), body, testkit.Value(facts.Sign(s.key, body))(t)))(t)
		s.cert = []byte(out.Certificate)
		testkit.Value(s.registry.Approve(t.Context(), slotMachine, "", "ann"))(t)
	}
}

// makeBad makes a system of the good one that panics: it has no init.
func (s *slotSite) makeBad() {
	t := s.t
	raw := filepath.Join(s.dir, "bad.raw")
	in := testkit.Value(os.Open(s.file(s.good.Root)))(t)
	defer in.Close()
	z := testkit.Value(zstd.NewReader(in))(t)
	defer z.Close()
	out := testkit.Value(os.Create(raw))(t)
	testkit.Value(io.Copy(out, z))(t)
	testkit.Must(t, out.Close())
	for _, f := range []string{"/usr/lib/systemd/systemd", "/usr/bin/sh", "/usr/bin/dash", "/usr/bin/bash"} {
		command(t, "debugfs", "-w", "-R", "rm "+f, raw)
	}
	s.bad = s.good
	dir := filepath.Join(s.dir, "systems", "bad")
	testkit.Must(t, os.Mkdir(dir, 0o755))
	s.bad.ID = "sha256:" + strings.Repeat("bad0", 16)
	s.bad.Root = testkit.Value(pack(t.Context(), raw, filepath.Join(dir, rootFile)))(t)
	s.bad.Root.Path = systemPaths + "bad/" + rootFile
}

func (s *slotSite) file(b order.Blob) string {
	return filepath.Join(s.dir, strings.TrimPrefix(b.Path, "/assets/"))
}

func (s *slotSite) order(host string, system order.System) *order.Order {
	return &order.Order{Schema: order.Schema, UUID: slotMachine, Hostname: host, System: system, Disk: order.Disk{Serial: "S1", SlotBytes: 3 * gib}, TrialSeconds: 1200}
}

func (s *slotSite) want(o *order.Order) {
	s.t.Helper()
	testkit.Value(s.registry.SetOrder(s.t.Context(), slotMachine, o, "ann"))(s.t)
}

// install carries the order out onto a file, as the discovery image does it onto a disk.
func (s *slotSite) install(disk string) {
	t := s.t
	f := testkit.Value(os.Create(disk))(t)
	size := slots.Needs(3 * gib)
	testkit.Must(t, errors.Join(f.Truncate(size), f.Close()))
	loop := strings.TrimSpace(command(t, "losetup", "--find", "--show", "--partscan", disk))
	defer func() { command(t, "losetup", "--detach", loop) }()
	s.want(s.order("m-1", s.good))
	began := time.Now()
	// the server believes the machine at its own address, the machine the server at 10.0.2.2: what is written down is the latter
	done, err := install.Machine(t.Context(), install.Options{UUID: slotMachine, MAC: slotMAC, Server: s.url, Authority: s.ca, Key: s.key, Certificate: s.cert,
		Disks: []facts.Disk{{Path: loop, Serial: "S1", SizeBytes: size}}, Say: func(text string) { t.Log(text) }, Dir: filepath.Join(s.dir, "mnt")})
	testkit.Must(t, err)
	t.Logf("installed in %v: %+v", time.Since(began).Round(time.Second), done)
	m := testkit.Value(s.registry.Machine(t.Context(), slotMachine))(t)
	if m.State != string(registry.Installed) || len(m.Record.HostKeys) != 1 || m.Record.HostKeys[0] != done.HostKeys[0] {
		t.Fatalf("%s, %+v", m.State, m.Record)
	}
	testkit.Value(s.registry.Journal(t.Context(), slotMachine, "", registry.InstallJournal))(t)
	var table struct {
		PartitionTable struct{ Partitions []struct{ Name string } }
	}
	testkit.Must(t, json.Unmarshal([]byte(command(t, "sfdisk", "--json", disk)), &table))
	if n := len(table.PartitionTable.Partitions); n != 5 {
		t.Errorf("%d partitions", n)
	}
	command(t, "sfdisk", "--verify", disk)
	command(t, "e2fsck", "-fn", slots.Device(loop, slots.NumberA))
	command(t, "fsck.vfat", "-n", slots.Device(loop, slots.NumberESP))
	if !install.Ours("/sys")(facts.Disk{Path: loop}) {
		t.Error("the disk is not known as ours")
	}
	if key := testkit.Value(install.SavedKey("/sys", []facts.Disk{{Path: loop}}, filepath.Join(s.dir, "mnt", "saved")))(t); !key.Equal(s.key) {
		t.Error("another key was saved")
	}
	state := filepath.Join(s.dir, "mnt", "state")
	command(t, "mount", slots.Device(loop, slots.NumberState), state)
	id := testkit.Value(install.LoadIdentity(state))(t)
	id.Server = "https://10.0.2.2:" + s.port
	testkit.Must(t, install.SaveIdentity(state, *id))
	command(t, "umount", state)
}

// slotVM is the machine, emulated.
type slotVM struct{ file string }

func (m slotVM) console() string {
	data, _ := os.ReadFile(m.file) // there is none before QEMU has begun
	return string(data)
}

// boot starts the machine from its disk; what a snapshot writes is forgotten.
func (s *slotSite) boot(t *testing.T, disk string, snapshot bool, args ...string) slotVM {
	m := slotVM{filepath.Join(s.dir, t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]+".console")}
	drive := "if=virtio,format=raw,serial=S1,discard=unmap,file=" + disk
	if snapshot {
		drive += ",snapshot=on"
	}
	args = append(args, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1536", "-nographic", "-nodefaults", "-serial", "file:"+m.file, "-device", "virtio-rng-pci",
		"-drive", drive, "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=,mac="+slotMAC, "-uuid", slotMachine)
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	ended := make(chan error, 1)
	testkit.Must(t, tool.StartLocked(cmd, ended))
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("qemu: %s\nconsole: %s", stderr.String(), tool.LastLines(m.console(), 80))
		}
	})
	return m
}

// until waits until the machine, started since now or later, reports from a slot what is installed there, and what it went back from.
func (s *slotSite) until(t *testing.T, _ slotVM, slot, digest, refused string) {
	t.Helper()
	began := time.Now()
	testkit.Until(t, 20*time.Minute, time.Second, func() error {
		m, err := s.registry.Machine(t.Context(), slotMachine)
		if err != nil {
			return err
		}
		if r := m.Report; r == nil || r.At.Before(began.Add(-time.Second)) || r.Digest != digest || m.Record.Slot != slot || m.Record.Refused != refused {
			return fmt.Errorf("the machine reports %+v from slot %q, and went back from %q", r, m.Record.Slot, m.Record.Refused)
		}
		return nil
	})
	t.Logf("reports from slot %s after %v", slot, time.Since(began).Round(time.Second))
}
