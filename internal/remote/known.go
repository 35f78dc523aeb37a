package remote

import (
	"bytes"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/naupegos/naupegos/internal/fail"
)

// Known is a known_hosts file: the host keys that a user of ssh has pinned.
type Known struct {
	path  string
	check ssh.HostKeyCallback
}

// ReadKnown reads a known_hosts file.
func ReadKnown(path string) (Known, error) {
	if _, err := os.Stat(path); err != nil {
		return Known{}, fail.Wrap(fail.Invalid, err, "read the known host keys").Do("ssh-keyscan HOST from a trusted place writes such a file; name it with --known-hosts")
	}
	check, err := knownhosts.New(path)
	if err != nil {
		return Known{}, fail.Wrap(fail.Invalid, err, "read the known host keys").At(path)
	}
	return Known{path, check}, nil
}

// nobody is a key that no host has: asked about it, a list of known hosts answers with the keys that it wants.
type nobody struct{}

// Type implements ssh.PublicKey.
func (nobody) Type() string { return "nobody" }

// Marshal implements ssh.PublicKey.
func (nobody) Marshal() []byte { return []byte("nobody") }

// Verify implements ssh.PublicKey.
func (nobody) Verify([]byte, *ssh.Signature) error { return errors.New("nobody signs") }

// Keys returns the host keys of an address as lines of authorized_keys, an Ed25519 key first; none where none are known.
func (k Known) Keys(address string, port int) ([]string, error) {
	addr := net.JoinHostPort(address, strconv.Itoa(port))
	err := k.check(addr, &net.TCPAddr{IP: net.ParseIP(address), Port: port}, nobody{})
	var want *knownhosts.KeyError
	if !errors.As(err, &want) {
		return nil, fail.Wrap(fail.Unauthorized, err, "look for the host key of %s", addr).At(k.path) // a revoked one
	}
	var lines []string
	for _, known := range want.Want {
		lines = append(lines, strings.TrimSpace(string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(known.Key)))))
	}
	slices.SortStableFunc(lines, func(a, b string) int { return rank(a) - rank(b) })
	return slices.Compact(lines), nil
}

func rank(line string) int {
	if strings.HasPrefix(line, ssh.KeyAlgoED25519+" ") {
		return 0
	}
	return 1
}
