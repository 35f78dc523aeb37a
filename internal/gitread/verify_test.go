package gitread

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func parsed(t *testing.T, public string) ssh.PublicKey {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	testkit.Must(t, err)
	return key
}

// signers sets the files with the keys that may sign.
func (r *rig) signers(files ...string) {
	r.t.Helper()
	r.source.Signers = &Signers{}
	for _, f := range files {
		testkit.Must(r.t, r.source.Signers.Add("signers", []byte(f)))
	}
}

// by reads, and expects a signer.
func (r *rig) by(want string) {
	r.t.Helper()
	if f := r.read(""); f.Refused != nil || !strings.Contains(f.Signer, want) || f.Content == nil {
		r.t.Errorf("signed by %q: %v", f.Signer, f.Refused)
	}
}

// TestSignedBySSH: a commit counts if one of the signers signed it, for git, while its key was valid. The refusal of any other commit names its signer.
func TestSignedBySSH(t *testing.T) {
	r := newRig(t)
	ann, annKey := r.SSHKey()
	_, bobKey := r.SSHKey("-t", "ecdsa")
	fingerprint := ssh.FingerprintSHA256(parsed(t, bobKey))
	r.SignWith(ann)
	r.signers("# who may\n\nann@example.org " + annKey + "\r\n")
	r.Commit("clusters/prod.yaml", "a: 1\n")
	r.refused(fail.Unauthorized, "is not signed", "Ann <ann@example.org>")
	r.Commit("clusters/prod.yaml", "a: 2\n", "-S")
	r.by("ann@example.org (ED25519 key SHA256:")
	r.signers("bob@example.org " + bobKey)
	r.refused(fail.Unauthorized, "ED25519 key SHA256:", "--signers does not have", "Ann <ann@example.org>")
	r.signers("ann@example.org,a@example.org "+annKey, "bob@example.org "+bobKey)
	r.by("ann@example.org")
	r.signers("*@example.org " + annKey)
	r.by("*@example.org")
	r.signers(`ann@example.org namespaces="file" ` + annKey)
	r.refused(fail.Unauthorized, "--signers does not have for git")
	r.signers(`ann@example.org namespaces="git" ` + annKey)
	r.by("ann@example.org")
	r.signers(`ann@example.org valid-before="` + time.Now().Add(-48*time.Hour).Format("20060102") + `" ` + annKey)
	r.Run("commit", "-q", "--amend", "-S", "--no-edit", "--date=now")
	r.refused(fail.Unauthorized, "ED25519 key SHA256:")
	if strings.Contains(r.read("").Refused.Error(), fingerprint) {
		t.Error("it is of bob's key")
	}
}

// TestForged: a signature of another commit, of something else or twice does not count.
func TestForged(t *testing.T) {
	r := newRig(t)
	_, key := r.SSHKey()
	r.signers("ann@example.org " + key)
	r.Commit("clusters/prod.yaml", "a: 1\n", "-S")
	signed := r.Run("cat-file", "commit", "HEAD") + "\n"
	put := func(text string) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "commit")
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
		r.Run("update-ref", "refs/heads/main", r.Run("hash-object", "-w", "-t", "commit", "--literally", name))
	}
	put(signed)
	r.by("ann@example.org")
	put(strings.Replace(signed, "Change clusters", "Chance clusters", 1))
	r.refused(fail.Unauthorized, "made for something else")
	head, rest, _ := strings.Cut(signed, "gpgsig ")
	sig, body, _ := strings.Cut(rest, "\n\n")
	put(head + "gpgsig " + sig + "\ngpgsig " + sig + "\n\n" + body)
	r.refused(fail.Unauthorized, "2 signatures")
	put(head + "gpgsig -----BEGIN SIGNED MESSAGE-----\n x\n\n" + body)
	r.refused(fail.Unauthorized, "neither of SSH nor of OpenPGP")
	put(head + "gpgsig -----BEGIN SSH SIGNATURE-----\n x\n\n" + body)
	r.refused(fail.Unauthorized, "does not count")
	put(head + "gpgsig \n\n" + body)
	r.refused(fail.Unauthorized, "does not count")
}

// TestSignedByOpenPGP: keys and subkeys count unless they have expired or are revoked.
func TestSignedByOpenPGP(t *testing.T) {
	r := newRig(t)
	ring := r.NewRing()
	ann := ring.Key("Ann <ann@example.org>", "never")
	ring.GPG("--quick-add-key", ann, "ed25519", "sign", "never")
	bob := ring.Key("Bob <bob@example.org>", "never")
	old := ring.Key("Old <old@example.org>", "seconds=86400", "--faked-system-time", "20200101T000000")
	export := func(keys ...string) string {
		return ring.GPG(append([]string{"--export", "--armor"}, keys...)...)
	}
	ring.Sign(ann) // with the subkey
	r.signers(strings.ReplaceAll(export(ann), "\n", "\r\n"))
	r.Commit("clusters/prod.yaml", "a: 1\n")
	r.refused(fail.Unauthorized, "is not signed")
	r.Commit("clusters/prod.yaml", "a: 2\n", "-S")
	r.by("Ann <ann@example.org>")
	r.signers(export(bob))
	r.refused(fail.Unauthorized, "--signers does not have its key", "key ")
	r.signers(export(bob), export(ann))
	r.by("Ann <ann@example.org>")
	r.signers(ring.GPG("--export", bob, ann)) // not armored
	r.by("Ann <ann@example.org>")
	r.signers("ann@example.org ssh-ed25519 AAAA")
	r.refused(fail.Unauthorized, "keys of SSH alone")
	ring.Sign(old, "--faked-system-time", "20200101T010000")
	r.Commit("clusters/prod.yaml", "a: 3\n", "-S")
	r.signers(export(ann, old))
	r.refused(fail.Unauthorized, "its key has expired", "Old <old@example.org>")
	ring.Sign(bob)
	r.Commit("clusters/prod.yaml", "a: 4\n", "-S")
	r.signers(export(bob))
	r.by("Bob <bob@example.org>")
	ring.Revoke(bob)
	r.signers(export(bob))
	r.refused(fail.Unauthorized, "its key is revoked", "Bob <bob@example.org>")
	r.SSHKey()
	r.Commit("clusters/prod.yaml", "a: 5\n", "-S")
	r.refused(fail.Unauthorized, "keys of OpenPGP alone", "ED25519 key SHA256:")
}

// TestSignersFiles: files that ssh-keygen or gpgv would skip or misread are refused with the line.
func TestSignersFiles(t *testing.T) {
	for text, word := range map[string]string{
		"": "names no signer", "# x\n": "names no signer", "ssh-ed25519 AAAA ann\n": "no signer before the key", "ann@example.org ssh-ed25519-sk AAAA\n": "sk-ssh-ed25519@openssh.com",
		"ann@example.org\n": "line 1 is neither", "x\ny": "line 1 is neither", "ann@example.org ssh-ed25519 AAA\n": "cut off", "-----BEGIN OPENSSH PRIVATE KEY-----": "private key",
		"-----BEGIN PGP PRIVATE KEY BLOCK-----": "private key", armorBegin + "\n\nAAAA": "cut off", armorBegin + "\n\n!\n" + armorEnd: "damaged",
	} {
		err := (&Signers{}).Add("file", []byte(text))
		if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "file") {
			t.Errorf("%q: %v", text, err)
		}
	}
	s := &Signers{}
	for _, text := range []string{"a@b sk-ssh-ed25519@openssh.com AAAA x", "a@b cert-authority,namespaces=\"git\" ssh-rsa AAAA\n"} {
		testkit.Must(t, s.Add("file", []byte(text)))
	}
	if strings.Count(s.SSH, "\n") != 2 {
		t.Errorf("%q", s.SSH)
	}
}
