package cluster

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/remote"
)

var handoverDay = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// handoverLab is a running cluster with gateways, WireGuard and keys.
func handoverLab(t *testing.T) *lab {
	t.Helper()
	l := wgLab(t, wireGuardDoc(t, "10.9.0.0/28", "anna", "ben"))
	l.pki = pki.Open(l.secrets, pki.Options{})
	if err := l.pki.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.pki.SSHKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	line, err := l.pki.SSHPublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.publicKey = line
	for name, m := range l.cloud.machines {
		m.HostKeys = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
		if strings.Contains(name, "-gw-") {
			m.Public = "198.51.100." + name[len(name)-1:]
		}
		l.cloud.machines[name] = m
	}
	l.layers()
	return l
}

func clouds(context.Context) ([]byte, error) { return []byte("clouds: {harbour: {}}\n"), nil }

func TestHandover(t *testing.T) {
	l := handoverLab(t)
	ca := func(context.Context) ([]byte, error) { return []byte("PEM\n"), nil }
	files, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: clouds, CloudCA: ca, Now: handoverDay})
	if err != nil {
		t.Fatal(err)
	}
	want := "README.md cloud-ca.crt clouds.yaml id_ed25519 id_ed25519.pub known_hosts kubeconfig ssh_config " +
		"wireguard/anna-demo-gw-1.conf wireguard/anna-demo-gw-2.conf wireguard/ben-demo-gw-1.conf wireguard/ben-demo-gw-2.conf"
	if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != want {
		t.Errorf("files %s\nwant %s", got, want)
	}
	readme := regexp.MustCompile(`20\d\d-\d\d-\d\d`).ReplaceAllString(string(files[handoverReadme]), "YEAR-MO-DA")
	golden(t, "handover", readme)
	for name, data := range files {
		if name == handoverKey || strings.HasPrefix(name, "wireguard/anna") || name == handoverKubeconfig {
			continue
		}
		if bytes.Contains(data, []byte("PRIVATE KEY")) || bytes.Contains(data, []byte("\nPrivateKey")) {
			t.Errorf("%s holds a private key", name)
		}
	}
}

// TestHandoverWithout: without a cloud, without WireGuard, and before the cluster is up.
func TestHandoverWithout(t *testing.T) {
	l := handoverLab(t)
	l.doc.Spec.Access.WireGuard = nil
	none := func(context.Context) ([]byte, error) { return nil, fail.New(fail.NotFound, "no credential") }
	files, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: none, CloudCA: none, Now: handoverDay})
	if err != nil || len(files) != 6 || files[handoverClouds] != nil {
		t.Errorf("%v: %v", slices.Sorted(maps.Keys(files)), err)
	}
	if text := string(files[handoverReadme]); strings.Contains(text, "WireGuard\n") || strings.Contains(text, "clouds.yaml") {
		t.Errorf("it speaks of what is not there:\n%s", text)
	}
	broken := func(context.Context) ([]byte, error) { return nil, fail.New(fail.Unauthorized, "no") }
	if _, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: broken}); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("a credential that can't be read: %v", err)
	}
	if err := l.facts.Set(t.Context(), memory.Bootstrapped, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Handover(t.Context(), HandoverOptions{}); fail.KindOf(err) != fail.Refused {
		t.Errorf("before it is up: %v", err)
	}
}

func TestWriteHandover(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new", "out")
	first := map[string][]byte{"README.md": []byte("one"), "wireguard/a.conf": []byte("a")}
	write := func(files map[string][]byte, force bool) error {
		return WriteHandover(dir, "demo", files, handoverDay, force)
	}
	if err := write(first, false); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, e := d.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err != nil || e != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v %v", path, info.Mode(), err, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := write(first, false); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over a hand-over: %v", err)
	}
	second := map[string][]byte{"README.md": []byte("two")}
	if err := write(second, true); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || string(got) != "two" {
		t.Errorf("%s: %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wireguard")); err == nil {
		t.Error("what the former hand-over had is still there")
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(first, true); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "mine.txt") {
		t.Errorf("somebody's file in it: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v (%v)", left, err)
	}
}

// TestWriteHandoverPlace: what is not a hand-over is never replaced, and nothing half-written stays.
func TestWriteHandoverPlace(t *testing.T) {
	parent := t.TempDir()
	files := map[string][]byte{"README.md": []byte("one")}
	if err := os.Mkdir(filepath.Join(parent, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("empty", filepath.Join(parent, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(parent, "full", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link", "full", "file/below"} {
		if err := WriteHandover(filepath.Join(parent, name), "demo", files, handoverDay, true); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name that can't be written, after one that can.
	bad := map[string][]byte{"README.md": []byte("one"), "README.md/x": []byte("two")}
	if err := WriteHandover(filepath.Join(parent, "half"), "demo", bad, handoverDay, false); err == nil {
		t.Error("a file in a file was written")
	}
	if err := WriteHandover(filepath.Join(parent, "empty"), "demo", files, handoverDay, false); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	info, err := os.Stat(filepath.Join(parent, "empty"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	var names []string
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "empty file full link" {
		t.Errorf("left over: %s (%v)", got, err)
	}
}

// TestTrustedKeysAreHandedOn: keys that only their first use has told are known to ssh as well, also those of jump hosts.
func TestTrustedKeysAreHandedOn(t *testing.T) {
	l := handoverLab(t)
	key := l.cloud.machines["demo-gw-1"].HostKeys[0]
	for name, m := range l.cloud.machines {
		m.HostKeys = nil
		l.cloud.machines[name] = m
	}
	l.doc.Spec.Provider.OpenStack = &v1alpha1.OpenStack{TrustOnFirstUse: true}
	for _, name := range []string{"demo-gw-1", "demo-cp-1"} {
		h, err := l.Host(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		shown, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.trust(h, shown); err != nil {
			t.Fatal(err)
		}
	}
	hs, err := l.hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := string(remote.KnownHosts(hs))
	for _, name := range []string{"demo-gw-1,", "demo-cp-1,"} {
		if !strings.Contains(known, name) {
			t.Errorf("ssh does not know the key of %s that was trusted:\n%s", name, known)
		}
	}
	if strings.Contains(known, "demo-gw-2,") {
		t.Errorf("a key that nobody has shown is known:\n%s", known)
	}
}
