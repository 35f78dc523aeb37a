package remote

import (
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key is a private key that logs in to machines. The alias lets other packages name it without speaking SSH themselves.
type Key = ssh.Signer

// HostKey is the key that a host shows.
type HostKey = ssh.PublicKey

// AuthorizedLine writes a public key as hosts' keys are pinned and authorized_keys lists them: type and base64.
func AuthorizedLine(k HostKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
