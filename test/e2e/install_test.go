//go:build e2e

package e2e_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/rack"
)

// systemsEnv names the directory with the system images for machines.
const systemsEnv = "NAUPEGOS_TEST_SYSTEMS"

// badSystem is the beginning of the ID of a system that does not boot.
const badSystem = "bad0"

// TestInstall installs new machines with BIOS and with UEFI over the network. They boot from their disks, we log in with the host keys that they have
// reported, and when they boot from the network again they are sent to their disks; with secure boot they boot the same disk. A machine falls back from
// a system that does not boot, and runs a good one from the other slot.
func TestInstall(t *testing.T) {
	testkit.OnlyFull(t, "TestMetal has such machines installed, too, and makes them a cluster's")
	if os.Getenv(systemsEnv) == "" {
		t.Setenv(systemsEnv, makeSystems(t))
	}
	if !inRack(t) {
		return
	}
	p := newProvisioning(t)
	systems := image.SystemsDir(p.server.state)
	testkit.Must(t, os.MkdirAll(filepath.Dir(systems), 0o755))
	if out, err := exec.Command("cp", "-al", os.Getenv(systemsEnv), systems).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	old, modern := p.add(rack.Spec{Name: "old", MemoryMiB: 1024}), p.add(rack.Spec{Name: "modern", UEFI: true, MemoryMiB: 1024})
	both := []*rack.Machine{old, modern}
	p.employed(both...)
	private, public, err := remote.GenerateKey("e2e")
	testkit.Must(t, err)
	keys := filepath.Join(p.dir, "key.pub")
	testkit.Must(t, os.WriteFile(keys, []byte(public), 0o644))
	dialer := remote.NewDialer([]remote.Key{testkit.Value(remote.ParseKey(private))(t)}, remote.Options{ConnectTimeout: time.Minute})
	t.Cleanup(func() { testkit.Must(t, dialer.Close()) })
	try := func(m *rack.Machine, command string) (string, error) {
		d := testkit.Value(p.show(m.Name))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		address, _, _ := strings.Cut(d.Address, "/")
		out, err := dialer.Run(ctx, remote.Host{Name: m.Name, Address: address, Port: 22, User: "root", HostKeys: d.HostKeys}, nil, "sh", "-c", command)
		return string(out), err
	}
	in := func(m *rack.Machine, command string) string { return testkit.Value(try(m, command))(t) }
	order := func(m *rack.Machine, args ...string) {
		p.run(append([]string{"machine", "install", m.Name, "--ssh-key", keys, "--slot-size", "3"}, args...)...)
	}
	began := time.Now()
	for _, m := range both {
		order(m, "--kubernetes", goodSystem)
	}
	for _, m := range both {
		p.runs(m, "a")
		t.Logf("%s reports from its installed system after %v", m.Name, time.Since(began).Round(time.Second))
	}
	for _, m := range both {
		if out := in(m, "hostname; cat /proc/cmdline; findmnt -no SOURCE /; cat /var/lib/naupegos-machine/machine.json"); !strings.HasPrefix(out, m.Name+"\n") || !strings.Contains(out, "naupegos.slot=a") ||
			!strings.Contains(out, "/dev/vda1\n") || !strings.Contains(out, m.UUID) {
			t.Errorf("%s: %s", m.Name, out)
		}
	}

	boots := func(m *rack.Machine, start func()) {
		boot := strings.TrimSpace(in(m, "cat /proc/sys/kernel/random/boot_id"))
		start()
		until(t, 10*time.Minute*slower, 2*time.Second, func() error {
			d, err := p.show(m.Name)
			if err == nil && (d.Report == nil || d.Report.BootID == boot) {
				err = errors.New("it has not reported since it was switched off and on")
			}
			return err
		})
	}
	t.Run("from the network to the disk", func(*testing.T) {
		boots(modern, func() { p.run("machine", "power", modern.Name, "cycle", "--network", "--yes") })
	})

	t.Run("secure boot", func(t *testing.T) { // iPXE is unsigned and refused: the firmware continues with the disk
		boots(modern, func() { testkit.Must(t, errors.Join(modern.Switch(false), modern.SecureBoot(), modern.Switch(true))) })
		until(t, 5*time.Minute*slower, time.Second, func() error { // the agent may report before sshd listens
			_, err := try(modern, "dmesg | grep 'Secure boot enabled'")
			return err
		})
	})

	t.Run("a bad system", func(t *testing.T) {
		p.post("/lifecycle/rolling/mac="+strings.ReplaceAll(old.MAC, ":", "-"), "reboot")
		good := testkit.Value(p.show(old.Name))(t).Wanted
		order(old, "--system", badSystem)
		bad := testkit.Value(p.show(old.Name))(t).Wanted
		began := time.Now()
		until(t, 20*time.Minute*slower, 2*time.Second, func() error {
			d, err := p.show(old.Name)
			if err == nil && (d.Refused != bad || d.Slot != "a" || d.Report.Digest != good) {
				err = fmt.Errorf("it runs %s from slot %s, and went back from %q", d.Report.Digest, d.Slot, d.Refused)
			}
			return err
		})
		t.Logf("it has left the bad system after %v", time.Since(began).Round(time.Second))
		if log := old.Console(); !strings.Contains(log, "naupegos.slot=b naupegos.trial=1") || !strings.Contains(log, "anic") {
			t.Error("the bad system was not tried")
		}
	})

	t.Run("a good one", func(t *testing.T) {
		host := in(old, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub")
		began := time.Now()
		order(old, "--kubernetes", goodSystem, "--hostname", "older")
		p.runs(old, "b")
		t.Logf("it runs from the other slot after %v", time.Since(began).Round(time.Second))
		if out := in(old, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub"); out != host {
			t.Errorf("the machine was\n%s\nand is\n%s", host, out)
		}
		if out := in(old, "hostname"); out != "older\n" {
			t.Error(out)
		}
		until(t, 5*time.Minute*slower, time.Second, func() error {
			if out := p.run("machine", "locks"); strings.Contains(out, old.UUID) {
				return errors.New(out)
			}
			return nil
		})
	})
}

// goodSystem is the release in a system image without a bundle.
const goodSystem = "none"

// makeSystems makes a system image, and a copy without an init.
func makeSystems(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(built.dir, "systems")
	good := buildSystem(t, image.Options{}, dir)
	at := func(b order.Blob) string { return filepath.Join(dir, strings.TrimPrefix(b.Path, "/assets/systems/")) }
	bad := *good
	bad.ID, bad.Kubernetes = "sha256:"+strings.Repeat(badSystem, 16), "bad"
	testkit.Must(t, os.Mkdir(filepath.Join(dir, bad.ID[7:]), 0o755))
	bad.Root.Path = "/assets/systems/" + bad.ID[7:] + "/root.zst"
	raw := filepath.Join(built.dir, "bad.raw")
	in := testkit.Value(os.Open(at(good.Root)))(t)
	defer in.Close()
	z := testkit.Value(zstd.NewReader(in))(t)
	defer z.Close()
	out := testkit.Value(os.Create(raw))(t)
	testkit.Value(io.Copy(out, z))(t)
	testkit.Must(t, out.Close())
	for _, f := range []string{"/usr/lib/systemd/systemd", "/usr/bin/sh", "/usr/bin/dash", "/usr/bin/bash"} {
		if out, err := exec.Command("debugfs", "-w", "-R", "rm "+f, raw).CombinedOutput(); err != nil {
			t.Fatalf("debugfs: %v: %s", err, out)
		}
	}
	bad.Root = testkit.Value(packed(raw, at(bad.Root), bad.Root.Path))(t)
	testkit.Must(t, os.Remove(raw))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, bad.ID[7:], "manifest.json"), testkit.Value(json.Marshal(bad))(t), 0o644))
	return dir
}

// packed compresses a file, and returns the description of the result.
func packed(from, to, path string) (b order.Blob, err error) {
	in, err := os.Open(from)
	if err != nil {
		return b, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return b, err
	}
	raw, sum := sha256.New(), sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(out, sum), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err == nil {
		b.RawSize, err = io.Copy(io.MultiWriter(z, raw), in)
		err = errors.Join(err, z.Close())
	}
	st, statErr := out.Stat()
	if err = errors.Join(err, statErr, out.Close()); err != nil {
		return b, err
	}
	b.Path, b.Size, b.SHA256, b.RawSHA256 = path, st.Size(), hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(raw.Sum(nil))
	return b, nil
}

// runs waits until a machine reports from a slot that it has the wanted configuration.
func (p *provisioning) runs(m *rack.Machine, slot string) {
	p.t.Helper()
	until(p.t, 20*time.Minute*slower, 2*time.Second, func() error {
		d, err := p.show(m.Name)
		switch {
		case err != nil:
			return err
		case d.Failures > 0:
			p.t.Fatalf("%s: %s\n%s", m.Name, d.Why, p.run("machine", "journal", m.Name, "--install"))
		case d.Report == nil || d.Report.Digest != d.Wanted || d.Slot != slot:
			return fmt.Errorf("%s is %s: %s", m.Name, d.State, saysProgress(d))
		}
		return nil
	})
}

func saysProgress(d client.Detail) string {
	if d.Progress == nil {
		return d.Why
	}
	return fmt.Sprintf("%s, %d of %d bytes", d.Progress.Stage, d.Progress.Done, d.Progress.Total)
}

// post sends a body to the server, with the operator's token.
func (p *provisioning) post(path, body string) {
	p.t.Helper()
	req := testkit.Value(http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.server.address+path, strings.NewReader(body)))(p.t)
	req.Header.Set("Authorization", "Bearer "+p.token)
	res := testkit.Value(p.client().Do(req))(p.t)
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		p.t.Fatalf("POST %s: %s: %s", path, res.Status, text)
	}
}

// client returns a client that trusts the server's authority.
func (p *provisioning) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testkit.Value(os.ReadFile(filepath.Join(p.server.state, "server-ca.crt")))(p.t))
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}
