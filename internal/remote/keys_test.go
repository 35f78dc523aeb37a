package remote

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOtherKeyForms: errors name the remedy for keys in other forms of OpenSSH or PuTTY.
func TestOtherKeyForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", "open sesame", "-f", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err := ParseKey(testkit.Value(os.ReadFile(path))(t))
	testkit.Fails(t, err, fail.Invalid, "locked with a passphrase", "ssh-keygen -p -f", "ssh-add")
	for _, text := range []string{"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n", "\nPuTTY-User-Key-File-2: ssh-rsa\n"} {
		_, err = ParseKey([]byte(text))
		testkit.Fails(t, err, fail.Invalid, "PuTTY", "puttygen")
	}
	for _, kind := range []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256} { // as ssh-keygen -t ed25519-sk writes it: the private part is a handle
		rest := struct {
			Cipher, KDF, Options string
			Keys                 uint32
			Public, Private      []byte
		}{"none", "none", "", 1, ssh.Marshal(struct{ Kind, Key, Application string }{kind, "x", "ssh:"}), make([]byte, 64)}
		block := append([]byte("openssh-key-v1\x00"), ssh.Marshal(rest)...)
		_, err = ParseKey(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: block}))
		testkit.Fails(t, err, fail.Invalid, "security key", "ssh-add")
	}
	_, err = ParseKey([]byte("-----BEGIN NOTHING-----\n"))
	testkit.Fails(t, err, fail.Invalid, "OpenSSH or PEM form")
}
