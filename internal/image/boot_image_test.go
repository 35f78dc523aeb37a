//go:build image

package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/tool"
)

// bootTime is the time limit of an emulated machine; one minute suffices on an idle host.
const bootTime = 10 * time.Minute

// TestBoots boots the image on an emulated computer, with BIOS and a NoCloud seed, and with UEFI, secure boot and a config drive: the serial console
// shows the host keys, SSH has exactly these, the file system fills the disk, and containerd has every container image.
func TestBoots(t *testing.T) {
	disk := theImage(t)
	vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
	if err != nil {
		t.Fatalf("apt-get install qemu-system-x86 qemu-utils ovmf: %v", err)
	}
	for _, firmware := range []string{"bios", "uefi"} {
		t.Run(firmware, func(t *testing.T) {
			v := &vm{t: t, dir: t.TempDir(), source: "nocloud"}
			var args []string
			if firmware == "uefi" {
				v.source = "configdrive"
				file := filepath.Join(v.dir, "vars.fd")
				if err := os.WriteFile(file, vars, 0o600); err != nil {
					t.Fatal(err)
				}
				args = []string{
					"-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
					"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
					"-drive", "if=pflash,format=raw,unit=1,file=" + file,
				}
			}
			began := time.Now()
			v.start(disk, args...)
			v.waitHostKey()
			t.Logf("host key on the console after %v", time.Since(began).Round(time.Second))
			v.look(firmware)
		})
	}
}

// vm is an emulated machine.
type vm struct {
	t    *testing.T
	dir  string
	port int
	// source is the source of the user data, in cloud-id's terms
	source string
}

func (v *vm) file(name string) string { return filepath.Join(v.dir, name) }

// start boots a copy of the disk, enlarged, with a seed.
func (v *vm) start(disk string, args ...string) {
	v.t.Helper()
	command(v.t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", v.file("key"))
	key, err := os.ReadFile(v.file("key.pub"))
	if err != nil {
		v.t.Fatal(err)
	}
	data, err := machine.CloudInit(machine.UserData{Hostname: "img-one", SSHKeys: []string{string(key)}, HostKeysToConsole: true})
	if err != nil {
		v.t.Fatal(err)
	}
	v.seed(string(data))
	command(v.t, "qemu-img", "create", "-q", "-f", "qcow2", "-b", disk, "-F", "raw", v.file("disk.qcow2"), "12G")
	v.port = testkit.FreePort(v.t)
	args = append(args, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1536", "-nographic", "-nodefaults", "-serial", "file:"+v.file("console"),
		"-device", "virtio-rng-pci", "-drive", "if=virtio,file="+v.file("disk.qcow2"), "-drive", "if=virtio,format=raw,readonly=on,file="+v.file("seed"),
		"-netdev", fmt.Sprintf("user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22", v.port), "-device", "virtio-net-pci,netdev=n")
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	ended := make(chan error, 1)
	if err := tool.StartLocked(cmd, ended); err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if v.t.Failed() {
			v.t.Logf("qemu: %s\nconsole: %s", stderr.String(), tool.LastLines(v.console(), 40))
		}
	})
}

// seed makes the disk with the user data.
func (v *vm) seed(userData string) {
	v.t.Helper()
	label, files := "CIDATA", map[string]string{"user-data": userData, "meta-data": "instance-id: img-one\nlocal-hostname: img-one\n"}
	if v.source == "configdrive" { // as Nova makes it
		label, files = "config-2", map[string]string{
			"openstack/latest/user_data":      userData,
			"openstack/latest/meta_data.json": `{"uuid": "3f6c8f6e-6c2b-4f0a-9f0e-0d6d3a1f4c11", "name": "img-one", "hostname": "img-one"}`,
		}
	}
	command(v.t, "mkfs.vfat", "-C", "-n", label, v.file("seed"), "1024")
	top := v.file("files")
	for name, text := range files {
		file := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			v.t.Fatal(err)
		}
	}
	all, err := filepath.Glob(filepath.Join(top, "*"))
	if err != nil {
		v.t.Fatal(err)
	}
	command(v.t, "mcopy", append(append([]string{"-s", "-i", v.file("seed")}, all...), "::")...)
}

func (v *vm) console() string {
	data, err := os.ReadFile(v.file("console"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

var hostKey = regexp.MustCompile(`(?s)BEGIN SSH HOST KEY KEYS-----\r?\n(ssh-ed25519 \S+).*?END SSH HOST KEY KEYS`)

// waitHostKey waits for the host key on the console, and pins it.
func (v *vm) waitHostKey() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), bootTime)
	defer cancel()
	var key string
	err := tool.Until(ctx, time.Second, func() (bool, error) {
		if m := hostKey.FindStringSubmatch(v.console()); m != nil {
			key = m[1]
		}
		return key != "", nil
	})
	if err != nil {
		v.t.Fatalf("no SSH host key on the serial console: %v", err)
	}
	if err := os.WriteFile(v.file("known_hosts"), []byte(fmt.Sprintf("[127.0.0.1]:%d %s\n", v.port, key)), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vm) ssh(line string) string {
	v.t.Helper()
	return command(v.t, "ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+v.file("known_hosts"),
		"-o", "ConnectTimeout=60", "-i", v.file("key"), "-p", fmt.Sprint(v.port), "root@127.0.0.1", line)
}

// look checks the running machine.
func (v *vm) look(firmware string) {
	t := v.t
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	state := ""
	err := tool.Until(ctx, time.Second, func() (bool, error) {
		state = strings.TrimSpace(v.ssh("systemctl is-system-running || true"))
		return state == "running" || state == "degraded", nil
	})
	if err != nil || state != "running" {
		t.Fatalf("the system is %s: %v: %s", state, err, v.ssh("systemctl --failed --no-legend"))
	}
	for what, check := range map[string]string{
		"host name":             `test "$(hostname)" = img-one`,
		"cloud-init":            "cloud-init status --wait",
		"source of user-data":   `test "$(cloud-id)" = ` + v.source,
		"root file system":      `test "$(df --output=size -BG / | tail -n 1 | tr -dc 0-9)" -ge 11`,
		"kernel modules":        "modprobe -a overlay br_netfilter nf_conntrack vxlan wireguard",
		"programs":              "command -v runc haproxy keepalived nft iptables conntrack ethtool socat wg apparmor_parser",
		"no gateway's programs": "! systemctl is-enabled --quiet haproxy keepalived",
		"firmware":              map[string]string{"bios": "test ! -e /sys/firmware/efi", "uefi": "dmesg | grep -i 'secure boot enabled'"}[firmware],
	} {
		if err := v.try(check); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	v.images()
	v.configure()
}

// configure lets the image's agent apply the configurations of nodes and gateways, with parts of the bundle and of Debian: nothing is missing,
// imported or installed. The machine has no network.
func (v *vm) configure() {
	c := machine.Config{
		Machine: "img-one", Modules: []string{"overlay", "br_netfilter"}, Sysctls: map[string]string{"net.bridge.bridge-nf-call-iptables": "1"},
		Packages: []string{
			"conntrack", "ethtool", "iptables", "nftables", "runc", "socat", "haproxy", "keepalived", "wireguard-tools", "wireguard-go", "iproute2",
		},
	}
	for _, a := range built.bundle.Manifest.Binaries {
		c.Binaries = append(c.Binaries, machine.Binary{Path: "/opt/test/" + a.Name, Digest: a.Digest, Size: a.Size})
	}
	for _, i := range built.bundle.Manifest.Images {
		c.Images = append(c.Images, machine.Image{Refs: []string{i.Ref}, Digest: i.Archive.Digest, Size: i.Archive.Size, ID: i.ID})
	}
	data, err := json.Marshal(c)
	if err != nil {
		v.t.Fatal(err)
	}
	var report machine.Report
	out := v.ssh("echo " + base64.StdEncoding.EncodeToString(data) + " | base64 -d | " + machine.AgentDir + "/*/naupegos-agent apply")
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		v.t.Fatalf("%v: %s", err, out)
	}
	if len(report.Missing)+len(report.Warnings) > 0 || report.Digest != c.Digest() {
		v.t.Errorf("the agent misses %v, and warns: %v", report.Missing, report.Warnings)
	}
	for _, change := range report.Changes {
		if change.Kind == "image" || change.Kind == "package" {
			v.t.Errorf("the agent had to %s %s %s: %s", change.Action, change.Kind, change.Name, change.Why)
		}
	}
}

func (v *vm) try(line string) error {
	out := v.ssh("{ " + line + "; } > /tmp/out 2>&1 && echo fine || cat /tmp/out")
	if strings.TrimSpace(out) != "fine" {
		return errors.New(line + ": " + out)
	}
	return nil
}

// images starts the bundle's containerd, which has every image complete without a network.
func (v *vm) images() {
	b := built.bundle
	path := func(name string) string {
		a, err := b.Binary(name)
		if err != nil {
			v.t.Fatal(err)
		}
		return machine.BlobDir + "/" + rootfs.Hex(a.Digest)
	}
	out := v.ssh("systemd-run -q -p Type=notify " + path("containerd") + " && " + path("ctr") + " -n k8s.io images check -q")
	for _, i := range b.Manifest.Images {
		if !strings.Contains(out, i.Ref) {
			v.t.Errorf("containerd does not have %s: %s", i.Ref, out)
		}
	}
}
