package local

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestPruneImages(t *testing.T) {
	p := newProvider(t, nil)
	current, err := p.layers().Missing()
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * layers.Rest)
	names := []string{current[0].Name, "base-stoppedmachine", "bundle-unused", "agent-unused", "bundle-justmade", "notes"}
	for _, n := range names {
		dir := filepath.Join(p.opts.ImageRoot, n)
		if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
			t.Fatal(err)
		}
		if n != "bundle-justmade" {
			if err := os.Chtimes(dir, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	fabricate(t, p, record{Cluster: "unit-1a2b3c4d", Name: "w-1", Created: true, Address: "10.77.3.101/24", Lower: []string{filepath.Join(p.opts.ImageRoot, "base-stoppedmachine", "root")}}, nil)
	damaged := p.n.machine("w-2")
	if err := os.MkdirAll(damaged, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordFile(damaged), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if removed, err := p.PruneImages(t.Context(), layers.Rest); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v) although the layers of a damaged machine are unknown", removed, err)
	}
	if err := os.RemoveAll(damaged); err != nil {
		t.Fatal(err)
	}
	removed, err := p.PruneImages(t.Context(), layers.Rest)
	if want := []string{"agent-unused", "bundle-unused"}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v (%v), want %v", removed, err, want)
	}
	entries, err := os.ReadDir(p.opts.ImageRoot)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			left = append(left, e.Name())
		}
	}
	want := []string{current[0].Name, "base-stoppedmachine", "bundle-justmade", "notes"}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
	if err := p.layers().Touch(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(p.opts.ImageRoot, current[0].Name)); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("a layer that is used again counts as old: %v %v", info, err)
	}
}

// TestPruneKeepsWhatOtherRootsUse: machines of another state root use layers of the same directory.
func TestPruneKeepsWhatOtherRootsUse(t *testing.T) {
	p := newProvider(t, nil)
	other := newProvider(t, func(o *Options) { o.ClusterID, o.ImageRoot = "unit-2b3c4d5e", p.opts.ImageRoot })
	gone := newProvider(t, func(o *Options) { o.Root, o.ImageRoot = filepath.Join(o.Root, "gone"), p.opts.ImageRoot })
	long := time.Now().Add(-2 * layers.Rest)
	for _, n := range []string{"base-theirs", "base-nobodys"} {
		dir := filepath.Join(p.opts.ImageRoot, n)
		testkit.Must(t, os.MkdirAll(dir, 0o755))
		testkit.Must(t, os.Chtimes(dir, long, long))
	}
	fabricate(t, other, record{Name: "w-1", Created: true, Address: "10.77.3.101/24", Lower: []string{filepath.Join(p.opts.ImageRoot, "base-theirs", "root")}}, nil)
	testkit.Must(t, files.WriteJSON(other.n.network(), networkRecord{Subnet: netip.MustParsePrefix("10.77.3.0/24"), Bridge: other.n.bridge()}))
	for _, o := range []*Provider{gone, other, other, p} {
		testkit.Must(t, noteRoot(o))
	}
	testkit.Must(t, closeRoots(p))
	for _, dir := range []string{p.opts.ImageRoot, p.opts.Root} {
		if info := testkit.Value(os.Stat(dir))(t); info.Mode().Perm() != 0o700 {
			t.Errorf("%s is open to others: %v", dir, info.Mode())
		}
	}
	if roots, err := roots(p); err != nil || !slices.Equal(roots, []string{p.n.root, other.n.root}) {
		t.Errorf("the roots are %v (%v)", roots, err)
	}
	removed, err := p.PruneImages(t.Context(), layers.Rest)
	if err != nil || !slices.Equal(removed, []string{"base-nobodys"}) {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if used, err := p.recordedSubnets(); err != nil || len(used) != 1 || used[0].String() != "10.77.3.0/24" {
		t.Errorf("of another root's cluster that is switched off: subnets %v (%v)", used, err)
	}
	if used, err := other.recordedSubnets(); err != nil || len(used) > 0 {
		t.Errorf("a cluster's own subnet is in its way: %v (%v)", used, err)
	}
}
