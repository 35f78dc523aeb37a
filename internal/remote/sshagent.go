package remote

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/naupegos/naupegos/internal/fail"
)

// AgentKeys returns the keys of an SSH agent. They sign through a connection that stays open while this program runs. name is as IdentityAgent of
// ssh_config has it: a socket, or a variable that names one ("SSH_AUTH_SOCK", "$NAME"); empty: SSH_AUTH_SOCK; "none": no agent, and no keys.
func AgentKeys(name string) ([]Key, error) {
	variable, isVariable := strings.CutPrefix(name, "$")
	switch {
	case strings.EqualFold(name, "none"):
		return nil, nil
	case name == "" || name == "SSH_AUTH_SOCK":
		variable, isVariable = "SSH_AUTH_SOCK", true
	}
	socket, place := name, name
	if isVariable {
		socket, place = os.Getenv(variable), variable
	}
	if socket == "" {
		return nil, fail.New(fail.Invalid, "no SSH agent is running: %s is not set", variable).Do("eval $(ssh-agent) and ssh-add, or leave sshAgent out")
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "connect to the SSH agent").At(place).Do("start it again, or leave sshAgent out")
	}
	keys, err := agent.NewClient(conn).Signers()
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, fail.Wrap(fail.Invalid, err, "list the keys of the SSH agent").At(place)
	}
	return keys, nil
}

// FileKeys returns the key of a private key's file. For a file that is locked by a passphrase it takes the agent's key whose public half lies beside
// the file; if the agent has none, it asks for the passphrase. A file with a public key selects the agent's private key. passphrase may be nil.
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
	if _, _, _, _, notPublic := ssh.ParseAuthorizedKey(private); notPublic == nil {
		return nil, fail.New(fail.Invalid, "the file has a public key, and no SSH agent that may be used has its private key").
			Do("add the private key to the agent (ssh-add) and set sshAgent: true, or name the private key's file")
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

// publicHalf returns a private key's public key: from the .pub file beside it, else from the private file, whose public part is not encrypted. A
// public key is its own.
func publicHalf(path string, private []byte) (ssh.PublicKey, error) {
	if key, _, _, _, err := ssh.ParseAuthorizedKey(private); err == nil {
		return key, nil
	}
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

// CertFile returns the path at which ssh looks for the certificate of a key's file.
func CertFile(key string) string { return strings.TrimSuffix(key, ".pub") + "-cert.pub" }

// Certified returns the certificates of files as keys that come before keys, whose private halves sign. It ignores a missing file, and the
// certificate of another key.
func Certified(keys []Key, files ...string) ([]Key, error) {
	var certified []Key
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the SSH certificate")
		}
		public, _, _, _, err := ssh.ParseAuthorizedKey(text)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the SSH certificate").At(file)
		}
		cert, ok := public.(*ssh.Certificate)
		if !ok || cert.CertType != ssh.UserCert {
			return nil, fail.New(fail.Invalid, "this is not the SSH certificate of a user").At(file).Do("remove the file, or let the authority sign the key: ssh-keygen -s")
		}
		for _, k := range keys {
			if !bytes.Equal(k.PublicKey().Marshal(), cert.Key.Marshal()) {
				continue
			}
			signer, err := ssh.NewCertSigner(cert, k)
			if err != nil {
				return nil, fail.Wrap(fail.Invalid, err, "use the SSH certificate").At(file)
			}
			certified = append(certified, signer)
			break
		}
	}
	return append(certified, keys...), nil
}

// Locked reports whether a private key is locked by a passphrase.
func Locked(private []byte) bool {
	_, err := ssh.ParsePrivateKey(private)
	var locked *ssh.PassphraseMissingError
	return errors.As(err, &locked)
}
