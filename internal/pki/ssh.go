package pki

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"strings"

	"golang.org/x/crypto/ssh"
)

// SSHKey returns the SSH user key in OpenSSH's private key format, without a passphrase.
func (k *PKI) SSHKey(ctx context.Context) ([]byte, error) {
	all, err := k.SSHKeys(ctx)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// SSHKeys returns the user keys that machines accept, SSHKey first.
func (k *PKI) SSHKeys(ctx context.Context) (all [][]byte, err error) {
	err = k.each(ctx, SSHKeyName, newSSHKey, func(_ string, data []byte) error {
		all = append(all, data)
		return nil
	})
	return all, err
}

// newSSHKey makes an Ed25519 key.
func newSSHKey() ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "naupegos")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// SSHPublicKeys returns the public halves of SSHKeys as lines of authorized_keys, without comment.
func (k *PKI) SSHPublicKeys(ctx context.Context) (lines []string, _ error) {
	all, err := k.SSHKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, data := range all {
		signer, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, wrap(err, "read the SSH key").at(SSHKeyName)
		}
		lines = append(lines, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))))
	}
	return lines, nil
}
