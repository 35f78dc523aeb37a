//go:build integration

package layout

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// host is a simulated machine: it has its own network, and this machine's file system overlaid with other files.
type host struct {
	root   string
	anchor int // the process that holds the namespaces
}

// newHost returns a host with the files of c and the addresses.
func newHost(t *testing.T, c machine.Config, addresses ...string) host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("network and mount namespaces are needed: run this test as root")
	}
	dir := t.TempDir()
	const setup = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
for d in proc dev sys; do mount --rbind /$d "$1/root/$d"; done
ip link set lo up
dir=$1; shift
for a in "$@"; do ip address add "$a/32" dev lo; done
echo ready
exec sleep infinity`
	cmd := exec.Command("unshare", append([]string{"--mount", "--net", "bash", "-c", setup, "host", dir}, addresses...)...)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	cmd.Stderr = os.Stderr
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	ready := make([]byte, 6)
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("the namespaces can't be made: %v", err)
	}
	h := host{filepath.Join(dir, "root"), cmd.Process.Pid}
	for _, d := range c.Directories {
		h.exec(t, nil, "mkdir", "-p", d.Path)
	}
	for _, f := range c.Files {
		h.exec(t, f.Content, "install", "-D", "-m", "600", "/dev/stdin", f.Path)
	}
	return h
}

func (h host) command(ctx context.Context, argv ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.anchor), "--mount", "--net", "chroot", h.root}
	return exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
}

func (h host) try(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	cmd := h.command(ctx, argv...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h host) exec(t *testing.T, stdin []byte, argv ...string) string {
	t.Helper()
	out, err := h.try(t.Context(), stdin, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

// start runs a server until the test ends; if the test fails, it prints the end of the server's log.
func (h host) start(t *testing.T, argv ...string) {
	t.Helper()
	log := &bytes.Buffer{}
	cmd := h.command(context.Background(), argv...)
	cmd.Stdout, cmd.Stderr = log, log
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			b := log.Bytes()
			t.Logf("%s:\n%s", argv[0], b[max(0, len(b)-4000):])
		}
	})
}
