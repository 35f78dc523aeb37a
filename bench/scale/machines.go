package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/containerd/containerdtest"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/remote"
)

// lab is the directory with the machines' roots and everything that they share.
type lab struct {
	dir      string
	machines []*host
	key      string            // public key that logs in
	images   map[string]string // of the bundle, by reference
}

// host is one machine.
type host struct {
	name, address, root string
	role                string
	hostKey             string
	bootID              string
}

const perNamespace = 20

// newLab mounts a file system in memory, and makes the roots of n machines: the first is the control plane.
func newLab(dir string, n int, b *bundle.Bundle, agent string) (*lab, error) {
	l := &lab{dir: dir, images: map[string]string{}}
	for _, i := range b.Manifest.Images {
		l.images[i.Ref] = i.ID
	}
	for _, m := range []mount{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, {"proc", "/proc", "proc", 0}, {"tmpfs", dir, "tmpfs", 0},
	} {
		if err := m.do(); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // sshd's unprivileged half works below
		return nil, err
	}
	private, public, err := remote.GenerateKey("bench")
	if err != nil {
		return nil, err
	}
	l.key = public
	if err := os.WriteFile(l.path("key"), private, 0o600); err != nil {
		return nil, err
	}
	if err := l.share(b, agent); err != nil {
		return nil, err
	}
	for i := range n {
		h := &host{name: fmt.Sprintf("bench-w-%d", i), role: "worker", root: l.path(fmt.Sprintf("m/%d", i))}
		h.address = fmt.Sprintf("198.18.%d.%d", 1+(i+perNamespace-1)/perNamespace, 10+(i+perNamespace-1)%perNamespace)
		if i == 0 {
			h.name, h.role = "bench-cp-1", "control-plane"
		}
		if err := l.makeRoot(h); err != nil {
			return nil, fmt.Errorf("make machine %s: %w", h.name, err)
		}
		l.machines = append(l.machines, h)
	}
	return l, nil
}

func (l *lab) path(p string) string { return filepath.Join(l.dir, p) }

type mount struct {
	from, to, kind string
	flags          uintptr
}

func (m mount) do() error {
	if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.from, m.to, err)
	}
	return nil
}

// share makes what the machines see of the bundle and the agent: both are on each of them already, as after an upload.
func (l *lab) share(b *bundle.Bundle, agent string) error {
	for _, dir := range []string{"blobs", "agent", "programs"} {
		if err := os.MkdirAll(l.path(dir), 0o755); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(agent)
	if err != nil {
		return fmt.Errorf("make build: %w", err)
	}
	bin, err := remote.NewDialer(nil, remote.Options{AgentPath: agent}).AgentPath()
	if err != nil {
		return err
	}
	if err := put(filepath.Join(l.path("agent"), strings.TrimPrefix(bin, machine.AgentDir)), string(data), 0o755); err != nil {
		return err
	}
	ctr, err := b.Binary("ctr") // one of them
	if err != nil {
		return err
	}
	for _, m := range []mount{
		{filepath.Dir(b.Path(ctr.Digest)), l.path("blobs"), "", syscall.MS_BIND}, {"", l.path("blobs"), "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// put writes a file, with the directories above it.
func put(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// makeRoot makes the root of a machine: a small Debian with this host's /usr.
func (l *lab) makeRoot(h *host) error {
	private, public, err := remote.GenerateKey(h.name)
	if err != nil {
		return err
	}
	h.hostKey = public
	var id [32]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	machineID, x := hex.EncodeToString(id[:16]), hex.EncodeToString(id[16:])
	h.bootID = strings.Join([]string{x[:8], x[8:12], x[12:16], x[16:20], x[20:]}, "-")
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/os-release": string(release), "/etc/machine-id": machineID + "\n", "/etc/resolv.conf": "nameserver 198.18.0.1\n", "/etc/hosts": "127.0.0.1 localhost\n",
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":  "root:x:0:\nnogroup:x:65534:\n", "/etc/ssh/sshd_config": sshdConfig, "/root/.ssh/authorized_keys": l.key + "\n",
		"/var/lib/dpkg/status": packages(), "/proc.sys/kernel/random/boot_id": h.bootID + "\n", "/local/sbin/systemctl": systemctlScript,
	} {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(path, "/local/") {
			mode = 0o755
		}
		if err := put(h.root+path, content, mode); err != nil {
			return err
		}
	}
	if err := put(h.root+"/etc/ssh/ssh_host_ed25519_key", string(private), 0o600); err != nil {
		return err
	}
	for _, setting := range settings {
		if err := put(h.root+"/proc.sys/"+setting, "0\n", 0o644); err != nil {
			return err
		}
	}
	for _, dir := range []string{
		"usr", "proc", "sys/fs/cgroup", "dev", "run/sshd", "run/systemd/system", "run/units", "run/containerd", "etc/systemd/system", "etc/sysctl.d", "tmp", "opt", "var/tmp",
		"local/bin", "local/lib/naupegos/agent", strings.TrimPrefix(machine.BlobDir, "/"),
	} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(h.root, link)); err != nil {
			return err
		}
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "random": 8, "urandom": 9} {
		device := filepath.Join(h.root, "dev", name)
		if err := syscall.Mknod(device, syscall.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("make device %s: %w", device, err)
		}
		if err := os.Chmod(device, 0o666); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"/usr", h.root + "/usr", "", syscall.MS_BIND}, {"", h.root + "/usr", "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
		{h.root + "/local", h.root + "/usr/local", "", syscall.MS_BIND}, {l.path("agent"), h.root + machine.AgentDir, "", syscall.MS_BIND},
		{l.path("blobs"), h.root + machine.BlobDir, "", syscall.MS_BIND | syscall.MS_REC},
		{"/proc", h.root + "/proc", "", syscall.MS_BIND}, {h.root + "/proc.sys", h.root + "/proc/sys", "", syscall.MS_BIND}, // the kernel's settings are this host's
		{"/sys/fs/cgroup", h.root + "/sys/fs/cgroup", "", syscall.MS_BIND}, {"", h.root + "/sys/fs/cgroup", "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return l.containerd(h.root)
}

// containerd answers at containerd's socket: all images of the bundle are there.
func (l *lab) containerd(root string) error {
	socket, err := net.Listen("unix", root+"/run/containerd/containerd.sock")
	if err != nil {
		return err
	}
	go func() { // until the process ends
		_ = containerdtest.Serve(socket, func(string) (map[string]string, error) { return l.images, nil })
	}()
	return nil
}

const sshdConfig = `HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
`

// settings are the kernel settings that machines may have; each machine's are files.
var settings = []string{
	"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables", "kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// packages is dpkg's database of a machine that has what Kubernetes needs.
func packages() string {
	var b strings.Builder
	for _, name := range []string{"conntrack", "ethtool", "iptables", "nftables", "openssh-server", "runc", "socat"} {
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n", name)
	}
	return b.String()
}

// systemctlScript stands in for systemctl: a unit runs if a file in /run/units says so.
const systemctlScript = `#!/bin/sh
verb=$1
shift
while [ $# -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
for u; do
	case $verb in
	show)
		load=not-found file= at= active=inactive sub=dead
		for dir in /etc/systemd/system /usr/lib/systemd/system; do
			[ -e $dir/$u ] && load=loaded file=disabled at=$dir/$u && break
		done
		for link in /etc/systemd/system/*.wants/$u; do [ -h "$link" ] && file=enabled; done
		[ -e /run/units/$u ] && active=active sub=running
		printf '%s\n' Id=$u LoadState=$load ActiveState=$active SubState=$sub UnitFileState=$file FragmentPath=$at NeedDaemonReload=no ExecMainPID=0 '' ;;
	start | restart | reload)
		[ $u = naupegos-filter.service ] && { nft -f /etc/naupegos/filter.nft || exit 1; }
		: >/run/units/$u ;;
	stop) rm -f /run/units/$u ;;
	esac
done
`
