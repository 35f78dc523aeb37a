package remote

import (
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key is a private key that logs in to machines. The alias lets other packages name it without importing an SSH library.
type Key = ssh.Signer

// HostKey is the key that a host presents.
type HostKey = ssh.PublicKey

// AuthorizedLine formats a public key as in authorized_keys and in pinned keys: type and base64.
func AuthorizedLine(k HostKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
