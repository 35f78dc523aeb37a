package remote

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// eventually waits for events that happen within moments, unless the host is busy.
const eventually = 20 * time.Second

// testServer is an SSH server in this process.
type testServer struct{ *sshtest.Server }

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	private, _, err := GenerateKey("test")
	testkit.Must(t, err)
	return testkit.Value(ParseKey(private))(t)
}

func newServer(t *testing.T, user ssh.PublicKey) *testServer {
	t.Helper()
	return &testServer{sshtest.NewServer(t, user)}
}

// host returns the server as a Host.
func (s *testServer) host(name string) Host {
	return Host{Name: name, Address: "127.0.0.1", Port: s.Port(), HostKeys: []string{PublicKey(s.HostKey)}}
}

func dialer(t *testing.T, o Options, signers ...ssh.Signer) *Dialer {
	t.Helper()
	d := NewDialer(signers, o)
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	return d
}

// has fails the test unless err's text contains all of parts.
func has(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v lacks %q", err, p)
		}
	}
}
