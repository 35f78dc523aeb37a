package remote

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/naupegos/naupegos/internal/fail"
)

// AgentKeys returns the keys of the SSH agent that SSH_AUTH_SOCK names. They sign through a connection that stays open while this program runs.
func AgentKeys() ([]Key, error) {
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, fail.New(fail.Invalid, "no SSH agent is running: SSH_AUTH_SOCK is not set").Do("eval $(ssh-agent) and ssh-add, or leave sshAgent out")
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "connect to the SSH agent").At("SSH_AUTH_SOCK").Do("start it again, or leave sshAgent out")
	}
	keys, err := agent.NewClient(conn).Signers()
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, fail.Wrap(fail.Invalid, err, "list the keys of the SSH agent").At("SSH_AUTH_SOCK")
	}
	return keys, nil
}

// FileKeys returns the key of a private key's file. For a file that is locked by a passphrase it takes the agent's key whose public half lies beside
// the file; if the agent has none, it asks for the passphrase. passphrase may be nil.
func FileKeys(path string, private []byte, agents []Key, passphrase func() (string, error)) ([]Key, error) {
	key, err := ParseKey(private)
	if err == nil {
		return []Key{key}, nil
	}
	want, readErr := publicHalf(path, private)
	for _, k := range agents {
		if readErr == nil && bytes.Equal(k.PublicKey().Marshal(), want.Marshal()) {
			return []Key{k}, nil
		}
	}
	if !Locked(private) || passphrase == nil {
		return nil, err
	}
	phrase, askErr := passphrase()
	if askErr != nil {
		return nil, askErr
	}
	key, err = ssh.ParsePrivateKeyWithPassphrase(private, []byte(phrase))
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, fail.New(fail.Unauthorized, "the passphrase does not unlock the SSH key").Do("run the same command again, or add the key to the SSH agent: ssh-add %s", path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "unlock the SSH private key")
	}
	return []Key{key}, nil
}

// publicHalf returns a private key's public key: from the .pub file beside it, else from the private file, whose public part is not encrypted.
func publicHalf(path string, private []byte) (ssh.PublicKey, error) {
	if public, err := os.ReadFile(path + ".pub"); err == nil {
		if key, _, _, _, err := ssh.ParseAuthorizedKey(public); err == nil {
			return key, nil
		}
	}
	_, err := ssh.ParsePrivateKey(private)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && locked.PublicKey != nil {
		return locked.PublicKey, nil
	}
	return nil, errors.New("its public half is not known")
}

// Locked reports whether a private key is locked by a passphrase.
func Locked(private []byte) bool {
	_, err := ssh.ParsePrivateKey(private)
	var locked *ssh.PassphraseMissingError
	return errors.As(err, &locked)
}
