//go:build integration

// Package logins_test runs naupegos plan against real OpenSSH servers, with sudo, PAM, shells and translated messages.
package logins_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// site is an operator, two bastions and a host, in their own namespaces.
type site struct {
	dir     string // keys, logs and programs
	pid     int    // a process in the operator's namespaces
	host    string // the host's public key
	bastion string // the bastions' public key
}

const startLimit = 5 * time.Minute // for the site, which generates a locale

// newSite starts testdata/site.sh in new namespaces and waits until all servers listen.
func newSite(t *testing.T) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("namespaces need root")
	}
	for _, program := range []string{"fish", "tcsh", "sudo", "localedef", "ssh", "/usr/sbin/sshd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: hack/setup test installs it", err)
		}
	}
	s := &site{dir: t.TempDir()}
	private, public, err := remote.GenerateKey("operator")
	testkit.Must(t, err)
	s.write(t, "id", string(private))
	s.write(t, "id.pub", public+"\n")
	s.host, s.bastion = s.hostKey(t, "host"), s.hostKey(t, "bastion")
	for _, name := range []string{"site.sh", "sshd.conf"} {
		s.write(t, name, string(testkit.Value(os.ReadFile("testdata/"+name))(t)))
	}
	for _, program := range []string{"naupegos", "naupegos-agent"} {
		testkit.Must(t, testkit.Program(filepath.Join(s.dir, program), "cmd/"+program, ""))
	}
	testkit.Must(t, os.Mkdir(filepath.Join(s.dir, "memory"), 0o755))
	s.haveABundle(t)
	s.start(t)
	return s
}

// start runs the site until the test ends.
func (s *site) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sh", filepath.Join(s.dir, "site.sh"), s.dir, filepath.Join(s.dir, "memory"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread
	testkit.Must(t, cmd.Start())
	s.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // ending the first process of its PID namespace ends the others
		<-ended
		runtime.UnlockOSThread()
		if t.Failed() {
			t.Logf("the site: %s", &said)
			for _, log := range []string{"one", "two", "host"} {
				data, _ := os.ReadFile(filepath.Join(s.dir, log+".log"))
				t.Logf("sshd %s: %s", log, data)
			}
		}
	})
	testkit.Until(t, startLimit, 50*time.Millisecond, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the site ended: %v", err)
		default:
		}
		if _, err := os.Stat(filepath.Join(s.dir, "ready")); err != nil {
			return err
		}
		for namespace, addr := range map[string]string{"one": "10.1.0.2", "two": "10.2.0.2", "host": "10.4.0.11"} {
			out, err := s.inside(t, 10*time.Second, nil, "nsenter", "--net=/run/netns/"+namespace, "bash", "-c", "exec 3<>/dev/tcp/"+addr+"/22")
			if err != nil {
				return fmt.Errorf("%s: %w: %s", addr, err, out)
			}
		}
		return nil
	})
}

// inside runs a program as the operator. It returns the output followed by the error output.
func (s *site) inside(t *testing.T, limit time.Duration, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", fmt.Sprint(s.pid), "--mount", "--net", "--pid", "--", "env", "--chdir=" + s.dir}, argv...)...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "NO_COLOR=1", "LANG=C.UTF-8"}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return stdout.String() + stderr.String(), err
}

// onHost runs a shell command in the host's namespaces.
func (s *site) onHost(t *testing.T, command string) {
	t.Helper()
	pid := strings.TrimSpace(string(testkit.Value(os.ReadFile(filepath.Join(s.dir, "host.pid")))(t)))
	if out, err := s.inside(t, time.Minute, nil, "nsenter", "--target", pid, "--mount", "--net", "--", "sh", "-ec", command); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// haveABundle puts an empty bundle of the default release into the operator's library: plan needs it, and does not use its content.
func (s *site) haveABundle(t *testing.T) {
	t.Helper()
	manifest := fmt.Sprintf(`{"schema":1,"kubernetes":%q,"platform":"linux/%s","origin":"built"}`, release.Default, runtime.GOARCH)
	dir := filepath.Join(s.dir, ".cache/naupegos/bundles/manifests")
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(manifest)))), []byte(manifest), 0o644))
}

// hostKey writes a new host key and returns its public part.
func (s *site) hostKey(t *testing.T, name string) string {
	t.Helper()
	private, public, err := remote.GenerateKey(name)
	testkit.Must(t, err)
	s.write(t, name, string(private))
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	testkit.Must(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}
