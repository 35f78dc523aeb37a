package install

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// IdentityFile is beside StateDir's other files.
const IdentityFile = "machine.json"

// Identity is who an installed machine is, and whom it reports to. It lies on the state's partition, of mode 0600.
type Identity struct {
	UUID        string            `json:"uuid"`
	MAC         string            `json:"mac"` // of the interface that it boots by
	Server      string            `json:"server"`
	Authority   string            `json:"authority"` // PEM
	Certificate string            `json:"certificate"`
	KeyPEM      string            `json:"key"`
	Key         *ecdsa.PrivateKey `json:"-"`
}

// SaveIdentity writes it down.
func SaveIdentity(dir string, id Identity) error {
	der, err := x509.MarshalPKCS8PrivateKey(id.Key)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encode the machine's key")
	}
	id.KeyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	data, err := json.Marshal(id)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write down who the machine is")
	}
	return Replace(filepath.Join(dir, IdentityFile), data, 0o600)
}

// LoadIdentity reads it: fail.NotFound where there is none. An error never holds what is in the file.
func LoadIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "this machine was not installed by naupegos").At(path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read who the machine is")
	}
	var id Identity
	damaged := fail.New(fail.Invalid, "what says who the machine is can't be read").At(path).Do("install the machine again: naupegos machine reinstall")
	if json.Unmarshal(data, &id) != nil {
		return nil, damaged
	}
	block, _ := pem.Decode([]byte(id.KeyPEM))
	if block == nil {
		return nil, damaged
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	own, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, damaged
	}
	id.Key = own
	return &id, nil
}

// Dial returns the machine's server.
func (id *Identity) Dial() (*ask.Server, error) {
	return ask.New(ask.Identity{UUID: id.UUID, Server: id.Server, Authority: []byte(id.Authority), Key: id.Key, Certificate: []byte(id.Certificate)})
}

// SavedKey returns who the machine was when it was installed the last time, so that to install it again needs no new approval: fail.NotFound where no
// disk says it. dir is where the disk is mounted meanwhile, and only read.
func SavedKey(disks []facts.Disk, dir string) (*Identity, error) {
	var why []string
	for _, d := range disks {
		dev := statePartition("/sys", d)
		if dev == "" {
			continue
		}
		undo, err := mount(dev, dir, "ext4", unix.MS_RDONLY)
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		id, err := LoadIdentity(dir)
		if err = errors.Join(err, undo()); err == nil {
			return id, nil
		}
		why = append(why, err.Error())
	}
	return nil, fail.New(fail.NotFound, "no disk says who the machine was: %s", strings.Join(why, "; "))
}
