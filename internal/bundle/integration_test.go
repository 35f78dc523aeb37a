//go:build integration

package bundle

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// theBundle returns the newest release's bundle from the default library, or builds it: with warm caches within seconds.
func theBundle(t *testing.T) (*Library, *Bundle) {
	t.Helper()
	root := os.Getenv("NAUPEGOS_BUNDLES")
	if root == "" {
		var err error
		if root, err = DefaultRoot(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	version := release.Default
	if v := os.Getenv("NAUPEGOS_KUBERNETES"); v != "" {
		version = v
	}
	b, err := l.Build(context.Background(), BuildOptions{Kubernetes: version, Progress: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	return l, b
}

func logTo(t *testing.T) func(Event) {
	return func(e Event) {
		if e.Finished {
			t.Logf("%-14s %-9s %v cached=%v", e.Component, e.Phase, e.Elapsed.Round(time.Millisecond), e.Cached)
		}
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestBuildTwiceIsOneBundle(t *testing.T) {
	l, b := theBundle(t)
	if err := l.Verify(context.Background(), b.ID); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	again, err := l.Build(context.Background(), BuildOptions{Kubernetes: b.Manifest.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != b.ID {
		t.Errorf("the second build is %s, the first %s", again.ID, b.ID)
	}
	t.Logf("second build: %s", time.Since(began).Round(time.Millisecond))
	if left := names(t, l.tmpDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// kubeadm looks for its images where the bundle has them.
func TestImagesAreThoseKubeadmExpects(t *testing.T) {
	_, b := theBundle(t)
	kubeadm, err := b.Binary("kubeadm")
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, b.Path(kubeadm.Digest), "config", "images", "list", "--image-repository", b.Manifest.Repository, "--kubernetes-version", b.Manifest.Kubernetes)
	var have []string
	for _, i := range b.Manifest.Images {
		have = append(have, i.Ref)
	}
	for ref := range strings.FieldsSeq(out) {
		if !slices.Contains(have, ref) {
			t.Errorf("kubeadm expects %s, the bundle has %v", ref, have)
		}
	}
}

func TestProgramsSayTheirVersion(t *testing.T) {
	_, b := theBundle(t)
	versions := map[string]string{}
	for _, c := range b.Manifest.Components {
		versions[c.Name] = c.Version
	}
	for name, c := range map[string]struct {
		component string
		args      []string
	}{
		"kubelet": {"kubernetes", []string{"--version"}}, "kubeadm": {"kubernetes", []string{"version", "-o", "short"}}, "kubectl": {"kubernetes", []string{"version", "--client"}},
		"etcd": {"etcd", []string{"--version"}}, "etcdutl": {"etcd", []string{"version"}}, "containerd": {"containerd", []string{"--version"}}, "ctr": {"containerd", []string{"--version"}},
	} {
		a, err := b.Binary(name)
		if err != nil {
			t.Fatal(err)
		}
		if out, want := run(t, b.Path(a.Digest), c.args...), strings.TrimPrefix(versions[c.component], "v"); !strings.Contains(out, want) {
			t.Errorf("%s says %q, want %s", name, out, want)
		}
	}
}

// Every image is imported into a separate containerd (from the bundle) under its reference and with the manifest's digest, and its programs start and
// find their libraries and kernel interfaces.
func TestImagesImportAndRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it runs containerd and chroot")
	}
	_, b := theBundle(t)
	dir := t.TempDir()
	t.Cleanup(func() { unmountAll(t, dir) })
	bin := func(name string) string {
		a, err := b.Binary(name)
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); err != nil {
			if err := os.Symlink(b.Path(a.Digest), link); err != nil {
				t.Fatal(err)
			}
		}
		return link
	}
	socket := filepath.Join(dir, "s")
	config := filepath.Join(dir, "config.toml")
	put(t, config, []byte("version = 3\nroot = \""+dir+"/root\"\nstate = \""+dir+"/state\"\n"+
		"disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \"io.containerd.cri.v1.runtime\"]\n[grpc]\naddress = \""+socket+"\"\n"))
	ctx, stop := context.WithCancel(context.Background())
	daemon := exec.CommandContext(ctx, bin("containerd"), "-c", config)
	daemon.Cancel = func() error { return daemon.Process.Signal(os.Interrupt) }
	daemon.WaitDelay = 20 * time.Second
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = daemon.Wait() })
	ctr := bin("ctr")
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error { return exec.Command(ctr, "-a", socket, "version").Run() })
	began := time.Now()
	for _, i := range b.Manifest.Images {
		run(t, bin("ctr"), "-a", socket, "-n", "k8s.io", "images", "import", b.Path(i.Archive.Digest))
	}
	t.Logf("import of all images: %s", time.Since(began).Round(time.Millisecond))
	list := run(t, bin("ctr"), "-a", socket, "-n", "k8s.io", "images", "list")
	for _, i := range b.Manifest.Images {
		if !slices.ContainsFunc(strings.Split(list, "\n"), func(line string) bool { return strings.HasPrefix(line, i.Ref+" ") && strings.Contains(line, i.ID) }) {
			t.Errorf("%s with %s is not in\n%s", i.Ref, i.ID, list)
		}
	}
	for _, c := range []struct {
		image string
		argv  []string
		says  string
	}{
		{"kube-proxy", []string{"/usr/sbin/nft", "--version"}, "nftables v"},
		{"kube-proxy", []string{"/usr/sbin/nft", "describe", "inet_proto"}, "tcp "},
		{"kube-proxy", []string{"/usr/sbin/iptables", "-m", "comment", "--help"}, "nf_tables"},
		{"kube-proxy", []string{"/usr/local/bin/kube-proxy", "--version"}, b.Manifest.Kubernetes},
		{"flannel", []string{"/usr/sbin/nft", "list", "ruleset"}, ""},
		{"flannel", []string{"/usr/sbin/iptables", "-j", "MASQUERADE", "--help"}, "MASQUERADE"},
		{"flannel", []string{"/opt/bin/flanneld", "--version"}, "v0."},
		{"kube-apiserver", []string{"/usr/local/bin/kube-apiserver", "--version"}, b.Manifest.Kubernetes},
		{"kube-controller-manager", []string{"/usr/local/bin/kube-controller-manager", "--version"}, b.Manifest.Kubernetes},
		{"kube-scheduler", []string{"/usr/local/bin/kube-scheduler", "--version"}, b.Manifest.Kubernetes},
		{"etcd", []string{"/usr/local/bin/etcdctl", "version"}, "etcdctl version"},
		{"coredns", []string{"/coredns", "-plugins"}, "kubernetes"},
		{"pause", []string{"/pause", "-v"}, "pause"},
	} {
		image, err := b.Image(c.image)
		if err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, "mnt-"+c.image)
		if _, err := os.Stat(root); err != nil {
			put(t, filepath.Join(root, ".keep"), nil)
			run(t, bin("ctr"), "-a", socket, "-n", "k8s.io", "images", "mount", image.Ref, root)
		}
		if out := run(t, "chroot", append([]string{root}, c.argv...)...); !strings.Contains(out, c.says) {
			t.Errorf("%s %v says %q, want %q", c.image, c.argv, out, c.says)
		}
	}
}

// unmountAll unmounts all file systems below dir, the last mounted first.
func unmountAll(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(mounts), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			run(t, "umount", fields[1])
		}
	}
}

// A small component, compiled with empty caches, has the same bytes as in the bundle. (To check a whole bundle, build it with other values of
// XDG_CACHE_HOME and GOCACHE.)
func TestCompilationIsReproducible(t *testing.T) {
	testkit.OnlyFull(t, "it compiles a component with an empty cache")
	l, _ := theBundle(t)
	tools := testRecipe(t).tools()
	g, err := newGoTool(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	before, err := l.compile(t.Context(), g, tools, &reporter{})
	if err != nil {
		t.Fatal(err)
	}
	g.env = append(g.env, "GOCACHE="+t.TempDir())
	again, err := newLibrary(t).compile(t.Context(), g, tools, &reporter{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before.Files, again.Files) {
		t.Errorf("before: %v\nagain: %v", before.Files, again.Files)
	}
}

func TestBuildStops(t *testing.T) {
	l := newLibrary(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := l.Build(ctx, BuildOptions{Kubernetes: release.Default, Parallel: 1, Progress: func(e Event) {
		if e.Component == "kubernetes" && e.Phase == PhaseCompile {
			cancel()
		}
	}})
	wantKind(t, err, fail.Interrupted, "continues where it stopped")
	if left := names(t, l.tmpDir()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := names(t, l.manifestDir()); len(left) > 0 {
		t.Errorf("registered: %v", left)
	}
}

// An interrupted build resumes: compiled components come from the cache, and only the others are compiled.
func TestBuildResumes(t *testing.T) {
	l, r := newLibrary(t), testRecipe(t)
	g, err := newGoTool(t.Context(), "")
	testkit.Must(t, err)
	list := []component{r.tools(), r.cniPlugins()}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = l.compileAll(ctx, g, list, 1, &reporter{to: func(e Event) {
		if e.Component == list[1].name && e.Phase == PhaseCompile {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) && fail.KindOf(err) != fail.Interrupted {
		t.Fatalf("not stopped: %v", err)
	}
	cached := map[string]bool{}
	made, _, err := l.compileAll(t.Context(), g, list, 1, &reporter{to: func(e Event) {
		if e.Phase == PhaseCompile && e.Finished {
			cached[e.Component] = e.Cached
		}
	}})
	testkit.Must(t, err)
	if want := map[string]bool{list[0].name: true, list[1].name: false}; !maps.Equal(cached, want) {
		t.Errorf("taken from the cache: %v, want %v", cached, want)
	}
	for _, c := range list {
		for _, target := range c.targets {
			if _, ok := made[target.name]; !ok {
				t.Errorf("%s was not made", target.name)
			}
		}
	}
}

// A complete pull from a mirror, with fake programs.
func TestPullFromMirror(t *testing.T) {
	r := testRecipe(t)
	u, l := newUpstream(t, r), newLibrary(t)
	b, err := l.Pull(t.Context(), PullOptions{Kubernetes: r.Kubernetes, BaseURLs: u.urls, Unpinned: true, Progress: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	if b.Manifest.Origin != originPulled {
		t.Errorf("origin %s", b.Manifest.Origin)
	}
	if err := l.Verify(context.Background(), b.ID); err != nil {
		t.Error(err)
	}
	again, err := l.Pull(context.Background(), PullOptions{Kubernetes: r.Kubernetes, BaseURLs: u.urls, Unpinned: true})
	if err != nil || again.ID != b.ID {
		t.Errorf("pulled again: %v, %v", again, err)
	}
}

// The real bundle, exported to a file and imported into an empty library, stays the same.
func TestRealBundleTravels(t *testing.T) {
	testkit.OnlyFull(t, "it packs, unpacks and verifies a whole bundle; other tests do that with small ones")
	l, b := theBundle(t)
	ctx := context.Background()
	file, err := os.Create(filepath.Join(t.TempDir(), "bundle.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	began := time.Now()
	if err := l.Export(ctx, b.ID, file); err != nil {
		t.Fatal(err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("export: %s, %d of %d MiB", time.Since(began).Round(time.Millisecond), size>>20, b.Size()>>20)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	to := newLibrary(t)
	got, err := to.Import(ctx, file, "")
	if err != nil || got.Bundle.ID != b.ID {
		t.Fatalf("got %v, %v", got, err)
	}
	t.Logf("import: %s", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	if err := to.Verify(ctx, got.Bundle.ID); err != nil {
		t.Error(err)
	}
	t.Logf("verify: %s", time.Since(began).Round(time.Millisecond))
}
