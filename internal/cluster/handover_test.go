package cluster

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/handover"
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
	l.PKI = pki.Open(l.Secrets, pki.Options{})
	if err := l.PKI.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.PKI.SSHKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines, err := l.PKI.SSHPublicKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.PublicKeys = lines
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

func TestHandover(t *testing.T) {
	l := handoverLab(t)
	ca := func(context.Context) ([]byte, error) { return []byte("PEM\n"), nil }
	var until time.Time
	cloudsYAML := func(_ context.Context, end time.Time) ([]byte, error) {
		until = end
		return []byte("clouds: {harbour: {}}\n"), nil
	}
	files, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: cloudsYAML, CloudCA: ca, Now: handoverDay})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := l.Certificates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(certs, func(i pki.CertInfo) bool { return i.Name == "admin" }); i < 0 || !until.Equal(certs[i].NotAfter) {
		t.Errorf("the credential of the cloud ends on %s, and the kubeconfig does not", until)
	}
	want := "README.md cloud-ca.crt clouds.yaml id_ed25519 id_ed25519.pub known_hosts kubeconfig ssh_config " +
		"wireguard/anna-demo-gw-1.conf wireguard/anna-demo-gw-2.conf wireguard/ben-demo-gw-1.conf wireguard/ben-demo-gw-2.conf"
	if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != want {
		t.Errorf("files %s\nwant %s", got, want)
	}
	readme := regexp.MustCompile(`20\d\d-\d\d-\d\d`).ReplaceAllString(string(files[handover.ReadmeFile]), "YEAR-MO-DA")
	golden(t, "handover", readme)
	for name, data := range files {
		if name == handover.KeyFile || strings.HasPrefix(name, "wireguard/anna") || name == handover.KubeconfigFile {
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
	l.Doc.Spec.Access.WireGuard = nil
	none := func(context.Context) ([]byte, error) { return nil, fail.New(fail.NotFound, "no authority") }
	noCloud := func(context.Context, time.Time) ([]byte, error) { return nil, fail.New(fail.NotFound, "no cloud") }
	files, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: noCloud, CloudCA: none, Now: handoverDay})
	if err != nil || len(files) != 6 || files[handover.CloudsFile] != nil {
		t.Errorf("%v: %v", slices.Sorted(maps.Keys(files)), err)
	}
	if text := string(files[handover.ReadmeFile]); strings.Contains(text, "WireGuard\n") || strings.Contains(text, "clouds.yaml") {
		t.Errorf("it speaks of what is not there:\n%s", text)
	}
	broken := func(context.Context, time.Time) ([]byte, error) { return nil, fail.New(fail.Unauthorized, "no") }
	if _, err := l.Handover(t.Context(), HandoverOptions{CloudsYAML: broken}); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("a credential that can't be read: %v", err)
	}
	if err := l.Facts.Set(t.Context(), memory.Bootstrapped, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Handover(t.Context(), HandoverOptions{}); fail.KindOf(err) != fail.Refused {
		t.Errorf("before it is up: %v", err)
	}
}

// TestTrustedKeysAreHandedOn: ssh also gets host keys that were trusted on first use, including those of jump hosts.
func TestTrustedKeysAreHandedOn(t *testing.T) {
	l := handoverLab(t)
	key := l.cloud.machines["demo-gw-1"].HostKeys[0]
	for name, m := range l.cloud.machines {
		m.HostKeys = nil
		l.cloud.machines[name] = m
	}
	l.Doc.Spec.Provider.OpenStack = &v1alpha1.OpenStack{TrustOnFirstUse: true}
	for _, name := range []string{"demo-gw-1", "demo-cp-1"} {
		h, err := l.Host(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		shown, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Trust(h, shown); err != nil {
			t.Fatal(err)
		}
	}
	hs, err := l.Hosts(t.Context())
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
		t.Errorf("a key that no machine has shown is known:\n%s", known)
	}
}
