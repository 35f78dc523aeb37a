// Package sshtest provides both ends of SSH for tests: a login to real machines, and a server in the test's process.
//
// It is for tests only and depends on none of the packages that it serves.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit"
)

// NewKey makes a key.
func NewKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	return testkit.Value(ssh.NewSignerFromKey(key))(t)
}

// AuthorizedKey returns a key's line for authorized_keys or known_hosts, without a comment.
func AuthorizedKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Login is a test's login to machines.
type Login struct {
	User    string // empty: root
	Key     ssh.Signer
	HostKey ssh.PublicKey // the machine's key; nil: any
	Timeout time.Duration // of the connection; 0: 5 s
}

// Dial logs in at an address (HOST:PORT, or HOST for port 22). It makes one attempt; see testkit.Until for retries.
func (l Login) Dial(address string) (*ssh.Client, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "22")
	}
	c := &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(l.Key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 5 * time.Second} //nolint:gosec // tests that know the key give it
	if l.User != "" {
		c.User = l.User
	}
	if l.HostKey != nil {
		c.HostKeyCallback = ssh.FixedHostKey(l.HostKey)
	}
	if l.Timeout > 0 {
		c.Timeout = l.Timeout
	}
	return ssh.Dial("tcp", address, c)
}

// Run logs in, runs one command and returns its output and error output together, without surrounding space.
func (l Login) Run(address, command string) (string, error) {
	c, err := l.Dial(address)
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // the command's end counts
	return Run(c, command)
}

// Run is Login.Run on an existing connection.
func Run(c *ssh.Client, command string) (string, error) {
	s, err := c.NewSession()
	if err != nil {
		return "", err
	}
	defer s.Close() //nolint:errcheck // it is closed already if the command has ended
	out, err := s.CombinedOutput(command)
	return strings.TrimSpace(string(out)), err
}
