//go:build integration

package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// sshd runs OpenSSH's server on a free port of loopback, with its own keys and further options.
func sshd(t *testing.T, name string, user ssh.Signer, options ...string) Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("sshd must be started by root")
	}
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("sshd is not installed: apt-get install openssh-server")
	}
	testkit.Must(t, os.MkdirAll("/run/sshd", 0o755)) // the directory that Debian's sshd requires
	dir := t.TempDir()
	private, public, err := GenerateKey(name)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(dir+"/host", private, 0o600))
	testkit.Must(t, os.WriteFile(dir+"/keys", []byte(PublicKey(user)+"\n"), 0o600))
	port := testkit.FreePort(t)
	cmd := exec.Command(program, "-D", "-e", "-f", "/dev/null", "-p", fmt.Sprint(port), "-h", dir+"/host",
		"-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+dir+"/keys", "-o", "StrictModes=no", "-o", "UsePAM=no",
		"-o", "PasswordAuthentication=no", "-o", "PidFile=none", "-o", "PermitRootLogin=prohibit-password")
	for _, o := range options {
		cmd.Args = append(cmd.Args, "-o", o)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd %s: %s", name, &log)
		}
	})
	h := Host{Name: name, Address: "127.0.0.1", Port: port, HostKeys: []string{public}}
	testkit.Until(t, eventually, 5*time.Millisecond, func() error {
		c, err := net.Dial("tcp", h.addr())
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return h
}

func TestRealSSHD(t *testing.T) {
	key := newKey(t)
	h := sshd(t, "target", key)
	via := sshd(t, "gateway", key)
	d := dialer(t, Options{}, key)
	for _, h := range []Host{h, {Name: h.Name, Address: h.Address, Port: h.Port, HostKeys: h.HostKeys, Via: []Host{via}}} {
		out, err := d.Run(t.Context(), h, strings.NewReader("in"), "sh", "-c", `cat; printf ' %s' "$1"`, "sh", "it's $HOME")
		if err != nil || string(out) != "in it's $HOME" {
			t.Errorf("%q: %v", out, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		endless, w := io.Pipe()
		_, err = d.Run(ctx, h, endless, "cat")
		cancel()
		_ = w.Close()
		if fail.KindOf(err) != fail.NotReady {
			t.Errorf("error %v", err)
		}
	}
	wrong := h
	wrong.HostKeys = via.HostKeys
	_, err := d.Run(t.Context(), wrong, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("error %v", err)
	}
	_, err = dialer(t, Options{}, newKey(t)).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("error %v", err)
	}
	var out bytes.Buffer
	status, err := d.Shell(t.Context(), h, Terminal{In: strings.NewReader("tty; exit 3\n"), Out: &out, Err: io.Discard, TTY: true, Size: Size{80, 24}}, "")
	if err != nil || status != 3 || !strings.Contains(out.String(), "/dev/pts/") {
		t.Errorf("status %d, output %q: %v", status, &out, err)
	}
}

// TestRealAgent builds the agent and runs it through a real sshd. It changes nothing: an empty configuration, as a dry run.
func TestRealAgent(t *testing.T) {
	key := newKey(t)
	h := sshd(t, "target", key)
	bin := filepath.Join(t.TempDir(), "naupegos-agent")
	testkit.Must(t, testkit.Program(bin, "cmd/naupegos-agent", ""))
	info, err := os.Stat(bin)
	testkit.Must(t, err)
	if info.Size() > 15<<20 {
		t.Errorf("the agent has grown to %d bytes", info.Size())
	}
	d := dialer(t, Options{AgentPath: bin}, key)
	remote, err := d.AgentPath()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(remote)) })
	start := time.Now()
	f, err := d.Facts(t.Context(), h)
	testkit.Must(t, err)
	t.Logf("with upload: %s", time.Since(start))
	if name, _ := os.Hostname(); f.Hostname != name || f.MemoryBytes == 0 {
		t.Errorf("facts %+v", f)
	}
	start = time.Now()
	report, err := d.Apply(t.Context(), h, always(machine.Config{Machine: "m"}), ApplyOptions{DryRun: true})
	testkit.Must(t, err)
	t.Logf("again: %s", time.Since(start))
	if report.Digest == "" || len(report.Changes) > 0 {
		t.Errorf("report %+v", report)
	}
	_, err = d.Apply(t.Context(), h, always(machine.Config{Files: []machine.File{{Path: "x"}}}), ApplyOptions{DryRun: true})
	if fail.KindOf(err) != fail.Invalid {
		t.Errorf("error %v", err)
	}
	has(t, err, "absolute and clean")
}

// TestOpenSSHReadsOurFiles: ssh itself logs in with our rendered files, through a jump host.
func TestOpenSSHReadsOurFiles(t *testing.T) {
	dir := t.TempDir()
	private, _, err := GenerateKey("test")
	testkit.Must(t, err)
	key, err := ParseKey(private)
	testkit.Must(t, err)
	h := sshd(t, "target", key)
	h.Via = []Host{sshd(t, "gateway", key)}
	testkit.Must(t, os.WriteFile(dir+"/id", private, 0o600))
	testkit.Must(t, os.WriteFile(dir+"/known_hosts", KnownHosts([]Host{h}), 0o600))
	testkit.Must(t, os.WriteFile(dir+"/config", SSHConfig([]Host{h}, dir+"/id", dir+"/known_hosts"), 0o600))
	out, err := exec.CommandContext(t.Context(), "ssh", "-F", dir+"/config", "-o", "BatchMode=yes", "target", "echo", "in").CombinedOutput()
	if err != nil || string(out) != "in\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRealCertificates logs in to a host that accepts the certificates of an authority and no key: with keys of all kinds, of files and of ssh-agent.
func TestRealCertificates(t *testing.T) {
	dir := t.TempDir()
	run := func(argv ...string) {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	ca := filepath.Join(dir, "ca")
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ca)
	h := sshd(t, "target", newKey(t), "TrustedUserCAKeys="+ca+".pub", "AuthorizedKeysFile=none")
	socket := filepath.Join(dir, "agent")
	served := exec.CommandContext(t.Context(), "ssh-agent", "-D", "-a", socket)
	testkit.Must(t, served.Start())
	t.Cleanup(func() { _ = served.Process.Kill(); _ = served.Wait() })
	testkit.Until(t, eventually, 5*time.Millisecond, func() error { _, err := AgentKeys(socket); return err })
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		file := filepath.Join(dir, kind)
		run("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", file)
		run("ssh-keygen", "-q", "-s", ca, "-I", "me", "-n", "root", file+".pub")
		private := testkit.Value(os.ReadFile(file))(t)
		keys := testkit.Value(FileKeys(file, private, nil, nil))(t)
		_, err := dialer(t, Options{}, keys...).Run(t.Context(), h, nil, "true")
		testkit.Fails(t, err, fail.Unauthorized, "log in as root")
		_, err = dialer(t, Options{}, testkit.Value(Certified(keys, CertFile(file)))(t)...).Run(t.Context(), h, nil, "true")
		testkit.Must(t, err)

		testkit.Must(t, os.Rename(CertFile(file), file+"-kept")) // ssh-add would load it into the agent
		cmd := exec.CommandContext(t.Context(), "ssh-add", "-q", file)
		cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v: %s", err, out)
		}
		testkit.Must(t, os.Rename(file+"-kept", CertFile(file)))
		stub := file + ".pub" // only the agent has the key
		keys = testkit.Value(FileKeys(stub, testkit.Value(os.ReadFile(stub))(t), testkit.Value(AgentKeys(socket))(t), nil))(t)
		_, err = dialer(t, Options{}, testkit.Value(Certified(keys, CertFile(stub)))(t)...).Run(t.Context(), h, nil, "true")
		testkit.Must(t, err)
	}
}
