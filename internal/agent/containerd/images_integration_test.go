//go:build integration

package containerd_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/containerd"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRealContainerd compares Images with what containerd's own client prints.
func TestRealContainerd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test runs containerd: run it as root")
	}
	b := bundletest.Any(t)
	dir, err := os.MkdirTemp("", "nau") // short, because a socket's path is limited
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	config := filepath.Join(dir, "config.toml")
	testkit.Must(t, os.WriteFile(config, []byte("version = 3\nroot = \""+dir+"/root\"\nstate = \""+dir+"/state\"\n"+
		"disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \"io.containerd.cri.v1.runtime\"]\n[grpc]\naddress = \""+socket+"\"\n"), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	daemon := exec.CommandContext(ctx, bundletest.Program(t, b, "containerd"), "-c", config)
	daemon.Cancel = func() error { return daemon.Process.Signal(os.Interrupt) }
	daemon.WaitDelay = 20 * time.Second
	testkit.Must(t, daemon.Start())
	t.Cleanup(func() { stop(); _ = daemon.Wait() })
	ctr := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(bundletest.Program(t, b, "ctr"), append([]string{"-a", socket, "-n", "k8s.io"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var got map[string]string
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() (err error) {
		got, err = containerd.Images(t.Context(), socket, "k8s.io")
		return err
	})
	if len(got) > 0 {
		t.Errorf("images of a new store: %v", got)
	}
	image, err := b.Image("pause")
	testkit.Must(t, err)
	ctr("images", "import", b.Path(image.Archive.Digest))
	for i := range 40 {
		ctr("images", "tag", image.Ref, "naupegos.local/pause:"+strings.Repeat("x", i+1))
	}
	want := map[string]string{}
	for line := range strings.Lines(ctr("images", "list")) {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[2], "sha256:") {
			want[f[0]] = f[2]
		}
	}
	got, err = containerd.Images(t.Context(), socket, "k8s.io")
	if err != nil || len(got) < 20 || !maps.Equal(got, want) || got[image.Ref] != image.ID {
		t.Errorf("%d images, ctr has %d: %v", len(got), len(want), err)
	}
	_, err = containerd.Images(t.Context(), socket, "no such namespace!")
	testkit.Fails(t, err, fail.Internal, socket, "status")
}
