package install

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/fail"
)

// IdentityFile is in StateDir.
const IdentityFile = "machine.json"

// Identity is the identity of an installed machine and of its server. It is a file on the state partition with mode 0600.
type Identity struct {
	UUID        string            `json:"uuid"`
	MAC         string            `json:"mac"` // of the boot interface
	Server      string            `json:"server"`
	Authority   string            `json:"authority"` // PEM
	Certificate string            `json:"certificate"`
	KeyPEM      string            `json:"key"`
	Key         *ecdsa.PrivateKey `json:"-"`
}

// SaveIdentity writes the identity.
func SaveIdentity(dir string, id Identity) error {
	text, err := encodeKey(id.Key)
	if err != nil {
		return err
	}
	id.KeyPEM = string(text)
	data, err := json.Marshal(id)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "store the machine's identity")
	}
	return Replace(filepath.Join(dir, IdentityFile), data, 0o600)
}

// LoadIdentity reads the identity, or returns fail.NotFound if there is none. Errors never quote the file.
func LoadIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "this machine was not installed by naupegos").At(path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the machine's identity")
	}
	var id Identity
	damaged := fail.New(fail.Invalid, "the machine's identity can't be read").At(path).Do("install the machine again: naupegos machine reinstall")
	if json.Unmarshal(data, &id) != nil {
		return nil, damaged
	}
	if id.Key = decodeKey([]byte(id.KeyPEM)); id.Key == nil {
		return nil, damaged
	}
	return &id, nil
}

// Dial returns a client for the machine's server.
func (id *Identity) Dial() (*ask.Server, error) {
	return ask.New(ask.Identity{UUID: id.UUID, Server: id.Server, Authority: []byte(id.Authority), Key: id.Key, Certificate: []byte(id.Certificate)})
}
