package bed

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// secrets are created at the first start and stored with the state that they protect.
type secrets struct {
	Admin, User, Service, Database, Broker, Metadata, Heartbeat string
}

func (b *Bed) secretsFile() string { return filepath.Join(b.state(), "secrets.json") }

// loadSecrets reads the secrets and creates them if they do not exist.
func (b *Bed) loadSecrets() error {
	data, err := os.ReadFile(b.secretsFile())
	if err == nil {
		if err := json.Unmarshal(data, &b.secrets); err != nil {
			return fail.Wrap(fail.Internal, err, "read the secrets of the test bed").At(b.secretsFile()).Do("remove the state: make openstack-down PURGE=1")
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, s := range []*string{&b.secrets.Admin, &b.secrets.User, &b.secrets.Service, &b.secrets.Database, &b.secrets.Broker, &b.secrets.Metadata, &b.secrets.Heartbeat} {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return err
		}
		*s = hex.EncodeToString(random)
	}
	if data, err = json.MarshalIndent(b.secrets, "", "  "); err != nil {
		return err
	}
	return write(b.secretsFile(), data, 0o600)
}
