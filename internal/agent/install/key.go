package install

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// The state partition gets its file system from a program of the system, which is written first and takes minutes. Until then the machine's key would
// be only in memory, and a power cut would cost another approval. Therefore the other slot, which is unused before the first update, begins with the
// key meanwhile.
const (
	keyMark = "naupegos machine key\n"
	keyRoom = 64 << 10
)

// encodeKey encodes a machine's key as PEM.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode the machine's key")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// decodeKey parses the output of encodeKey; it returns nil for anything else.
func decodeKey(text []byte) *ecdsa.PrivateKey {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	own, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil
	}
	return own
}

// putKey writes the machine's key to the beginning of a partition.
func putKey(dev string, key *ecdsa.PrivateKey) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	return begin(dev, append([]byte(keyMark), text...))
}

// dropKey zeroes the beginning of a partition that begins with the key.
func dropKey(dev string) error { return begin(dev, nil) }

func begin(dev string, with []byte) error {
	f, err := os.OpenFile(dev, os.O_WRONLY, 0)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "open the disk for writing")
	}
	data := make([]byte, keyRoom)
	copy(data, with)
	_, err = f.WriteAt(data, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail.Wrap(fail.Refused, err, "store the machine's key during its installation").At(dev).Do("the disk may be failing: look at the kernel's log")
	}
	return nil
}

// keyOf returns the key at the beginning of a partition, or fail.NotFound.
func keyOf(dev string) (*ecdsa.PrivateKey, error) {
	f, err := os.Open(dev)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "open the disk")
	}
	defer f.Close() // read only
	data := make([]byte, keyRoom)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the disk").At(dev)
	}
	if text, marked := bytes.CutPrefix(data, []byte(keyMark)); marked {
		if key := decodeKey(text); key != nil {
			return key, nil
		}
	}
	return nil, fail.New(fail.NotFound, "the slot does not begin with a key").At(dev)
}

// SavedKey returns the machine's key from its last or interrupted installation, so that a reinstallation needs no new approval. It returns
// fail.NotFound if no disk has a key. It mounts disks read-only at dir; sys is /sys.
func SavedKey(sys string, disks []facts.Disk, dir string) (*ecdsa.PrivateKey, error) {
	var why []string
	for _, d := range disks {
		for _, p := range []struct {
			dev  string
			read func(dev string) (*ecdsa.PrivateKey, error)
		}{
			{partitionNamed(sys, d, slots.NameState), func(dev string) (*ecdsa.PrivateKey, error) { return keyOfState(dev, dir) }},
			{partitionNamed(sys, d, slots.NameB), keyOf},
		} {
			if p.dev == "" {
				continue
			}
			key, err := p.read(p.dev)
			if err == nil {
				return key, nil
			}
			why = append(why, err.Error())
		}
	}
	return nil, fail.New(fail.NotFound, "no disk holds the machine's key: %s", strings.Join(why, "; "))
}

// keyOfState returns the key of an installed machine.
func keyOfState(dev, dir string) (*ecdsa.PrivateKey, error) {
	id, err := identityOn(dev, dir)
	if err != nil {
		return nil, err
	}
	return id.Key, nil
}

// identityOn returns the identity of the machine whose state partition is dev.
func identityOn(dev, dir string) (*Identity, error) {
	undo, err := mount(dev, dir, "ext4", unix.MS_RDONLY)
	if err != nil {
		return nil, err
	}
	id, err := LoadIdentity(dir)
	if err = errors.Join(err, undo()); err != nil {
		return nil, err
	}
	return id, nil
}
