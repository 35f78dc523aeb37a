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
	name  string
	check ssh.HostKeyCallback
}

// ParseKnown reads the text of a known_hosts file; name is what errors call it.
func ParseKnown(name string, text []byte) (Known, error) {
	refuse := func(err error) (Known, error) {
		return Known{}, fail.Wrap(fail.Invalid, err, "read the known host keys").At(name)
	}
	f, err := os.CreateTemp("", "naupegos-known-") // x/crypto reads files alone
	if err != nil {
		return refuse(err)
	}
	defer os.Remove(f.Name()) // of host keys, which are no secret
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return refuse(err)
	}
	check, err := knownhosts.New(f.Name())
	if err != nil {
		return refuse(errors.New(strings.ReplaceAll(err.Error(), f.Name(), name)))
	}
	return Known{name, check}, nil
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
		return nil, fail.Wrap(fail.Unauthorized, err, "look for the host key of %s", addr).At(k.name) // a revoked one
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
