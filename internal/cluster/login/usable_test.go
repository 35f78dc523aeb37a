package login

import (
	"crypto"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnusableKeys: of ssh's default files and of several IdentityFiles those count that can be used; nothing is asked as long as there is one.
func TestUnusableKeys(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	testkit.Must(t, os.Mkdir(filepath.Join(dir, ".ssh"), 0o700))
	in := func(name string, text []byte) string { return write(t, filepath.Join(dir, ".ssh", name), text) }
	good, text := private(t, "ed25519", "")
	_, locked := private(t, "rsa", "open sesame")
	public := func(k crypto.PrivateKey) string { return remote.PublicKey(testkit.Value(ssh.NewSignerFromKey(k))(t)) }
	asked := 0
	ask := func(string) (string, error) { asked++; return "open sesame", nil }
	hosts := &v1alpha1.Hosts{SSHConfig: "x"}
	offers := func(what string, ask func(string) (string, error), h remote.Host, asks int, want ...string) {
		t.Helper()
		asked = 0
		keys, err := testkit.Value(New(Options{Hosts: hosts, Ask: ask}))(t).Signers(h)
		var got []string
		for _, k := range keys {
			got = append(got, remote.PublicKey(k))
		}
		if err != nil || asked != asks || len(want) > 0 && !slices.Equal(got, want) || len(want) == 0 && len(got) != 1 {
			t.Errorf("%s: %q, asked %d times, %v", what, got, asked, err)
		}
	}
	in("id_ed25519", text)
	for what, other := range map[string][]byte{"locked": locked, "empty": nil, "nonsense": []byte("x"), "PuTTY's": []byte("PuTTY-User-Key-File-3: ssh-rsa\n")} {
		in("id_rsa", other)
		offers(what+", in CI", nil, remote.Host{}, 0, public(good))
		offers(what+", on a terminal", ask, remote.Host{}, 0, public(good))
	}
	old := in("old_rsa", locked)
	second, text2 := private(t, "ecdsa", "")
	another := in("another", text2)
	own := filepath.Join(dir, ".ssh", "id_ed25519")
	offers("two", nil, remote.Host{KeyFile: another, MoreKeys: []string{own}}, 0, public(second), public(good))
	offers("the first locked, in CI", nil, remote.Host{KeyFile: old, MoreKeys: []string{own, another}}, 0, public(good), public(second))
	offers("the second locked", ask, remote.Host{KeyFile: own, MoreKeys: []string{old, another}}, 0, public(good), public(second))
	in("id_rsa", locked)
	testkit.Must(t, os.Remove(own))
	offers("locked alone, on a terminal", ask, remote.Host{}, 1)
	_, err := testkit.Value(New(Options{Hosts: hosts}))(t).Signers(remote.Host{})
	testkit.Fails(t, err, fail.Invalid, "locked with a passphrase")
	in("id_ecdsa", []byte("x"))
	_, err = testkit.Value(New(Options{Hosts: hosts}))(t).Signers(remote.Host{})
	testkit.Fails(t, err, fail.Invalid, "none of 2 SSH keys can be used", "locked with a passphrase", "id_ecdsa")
}
