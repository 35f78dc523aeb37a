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
	return k.ensure(ctx, SSHKeyName, newSSHKey)
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

// SSHPublicKey returns the SSH user key's public half as a line of authorized_keys, without comment.
func (k *PKI) SSHPublicKey(ctx context.Context) (string, error) {
	data, err := k.SSHKey(ctx)
	if err != nil {
		return "", err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return "", wrap(err, "read the SSH key").at(SSHKeyName)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}
