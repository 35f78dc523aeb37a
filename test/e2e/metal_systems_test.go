//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// makeMetalSystems makes a system image with the part of a bundle that workers need, in the directory good; next contains the same image under
// another ID, and bad one with the same kernel but without an init. It returns their parent directory.
func makeMetalSystems(t *testing.T, b *bundle.Bundle) string {
	t.Helper()
	dir := filepath.Join(built.dir, "systems")
	good := buildSystem(t, image.Options{Bundle: workersBundle(b), Virtual: true}, filepath.Join(dir, "good"))
	next, bad := *good, *good
	next.ID = "sha256:" + strings.Repeat("600d", 16)
	testkit.Must(t, writeSystem(filepath.Join(dir, "next"), &next))
	bad.ID = "sha256:" + strings.Repeat("bad0", 16)
	root := filepath.Join(dir, "bad", bad.ID[7:], "root.zst")
	testkit.Must(t, os.MkdirAll(filepath.Dir(root), 0o755))
	bad.Root = testkit.Value(packed(withoutInit(t, filepath.Join(dir, "good", good.ID[7:], "root.zst")), root, "/assets/systems/"+bad.ID[7:]+"/root.zst"))(t)
	testkit.Must(t, writeSystem(filepath.Join(dir, "bad"), &bad))
	return dir
}

// workersBundle returns the part of a bundle that workers need.
func workersBundle(b *bundle.Bundle) *bundle.Bundle {
	small := *b
	small.Manifest.Images = slices.DeleteFunc(slices.Clone(b.Manifest.Images), func(i bundle.Image) bool { return !slices.Contains(i.Roles, "worker") })
	small.Manifest.Binaries = slices.DeleteFunc(slices.Clone(b.Manifest.Binaries), func(a bundle.Artifact) bool { return strings.HasPrefix(a.Name, "etcd") })
	return &small
}

func writeSystem(dir string, s *order.System) error {
	dir = filepath.Join(dir, s.ID[7:])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o644)
}

// withoutInit makes a file system that contains only the kernel of a system image, with room for the files that a machine carries over.
func withoutInit(t *testing.T, packed string) string {
	t.Helper()
	raw, bad, tree := filepath.Join(built.dir, "good.raw"), filepath.Join(built.dir, "bad.raw"), filepath.Join(built.dir, "bad.tree")
	in := testkit.Value(os.Open(packed))(t)
	defer in.Close()
	z := testkit.Value(zstd.NewReader(in))(t)
	defer z.Close()
	out := testkit.Value(os.Create(raw))(t)
	testkit.Value(io.Copy(out, z))(t)
	testkit.Must(t, out.Close())
	defer os.Remove(raw)
	testkit.Must(t, os.MkdirAll(tree, 0o755))
	command := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	for line := range strings.Lines(command("debugfs", "-R", "ls -p /boot", raw)) {
		f := strings.Split(line, "/")
		if len(f) < 6 {
			continue
		}
		for _, kind := range []string{"vmlinuz", "initrd.img"} {
			if strings.HasPrefix(f[5], kind+"-") {
				command("debugfs", "-R", fmt.Sprintf("dump /boot/%s %s", f[5], filepath.Join(tree, kind)), raw)
			}
		}
	}
	command("mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, "-O", "^orphan_file,^metadata_csum_seed", bad, "900M")
	return bad
}

// prepareFleet makes the image for machines of fleets, for tests in their own network namespace, which has no mirror.
func prepareFleet(t *testing.T, b *bundle.Bundle) {
	t.Helper()
	p := testkit.Value(local.New(fleetOptions("e2eprepare", b, nil)))(t)
	steps := testkit.Value(p.Steps(t.Context(), provider.Wanted{Machines: []provider.MachineSpec{{Name: "any", Role: provider.Worker, Pool: "hosts", Index: 1}}}, testkit.Value(p.Observe(t.Context()))(t)))(t)
	steps = slices.DeleteFunc(steps, func(s *plan.Step) bool { return s.ID != "image" })
	testkit.Value(plan.Execute(t.Context(), &plan.Plan{Verb: "create", Cluster: "fleet", Steps: steps}, plan.Options{}))(t)
}
