package remote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// GenerateKey makes an Ed25519 key, for a user or a host: the private key in OpenSSH's PEM form, the public one as an
// authorized_keys line without a newline.
func GenerateKey(comment string) (private []byte, public string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fail.Wrap(fail.Internal, err, "make an SSH key")
	}
	block, err := ssh.MarshalPrivateKey(priv, comment)
	if err != nil {
		return nil, "", fail.Wrap(fail.Internal, err, "write an SSH key")
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, "", fail.Wrap(fail.Internal, err, "write an SSH key")
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	return pem.EncodeToMemory(block), strings.TrimSpace(line + " " + comment), nil
}

// ParseKey parses a private key without a passphrase. Its errors contain nothing of the key.
func ParseKey(private []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(private)
	if err == nil {
		return signer, nil
	}
	if locked := (*ssh.PassphraseMissingError)(nil); errors.As(err, &locked) {
		return nil, fail.New(fail.Invalid, "the SSH key is locked with a passphrase").Do("add it to the SSH agent (ssh-add FILE) and set sshAgent, run the command on a terminal, which asks for the passphrase, or give a key without one")
	}
	switch text := bytes.TrimSpace(private); {
	case bytes.HasPrefix(text, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----")):
		return nil, fail.New(fail.Invalid, "the SSH key is locked with a passphrase, in a form (PKCS#8) that only ssh itself unlocks").
			Do("write it in OpenSSH's form (ssh-keygen -p -f FILE), or add it to the SSH agent (ssh-add FILE) and set sshAgent")
	case bytes.HasPrefix(text, []byte("PuTTY-User-Key-File-")):
		return nil, fail.New(fail.Invalid, "the SSH key is in PuTTY's form").Do("write it in OpenSSH's form: puttygen FILE -O private-openssh -o NEW")
	}
	if block, _ := pem.Decode(private); block != nil && (bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKED25519)) || bytes.Contains(block.Bytes, []byte(ssh.KeyAlgoSKECDSA256))) {
		return nil, fail.New(fail.Invalid, "the SSH key is on a security key (FIDO), which only ssh and its agent use").
			Do("plug it in, add it to the SSH agent (ssh-add FILE), and set sshAgent; each login may want a touch")
	}
	return nil, fail.Wrap(fail.Invalid, err, "read the SSH private key").Do("give a private key in OpenSSH or PEM form")
}

// PublicKey returns signer's public key as an authorized_keys line.
func PublicKey(signer ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}
