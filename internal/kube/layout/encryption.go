package layout

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// Plaintext is the entry of Params.Encryption for Secrets that are stored unencrypted (Kubernetes' provider "identity").
const Plaintext = "identity"

// encrypts reports whether API servers have any key; without one there is nothing to configure.
func (p Params) encrypts() bool {
	return slices.ContainsFunc(p.Encryption, func(s string) bool { return s != Plaintext })
}

// encryptionConfig renders API servers' EncryptionConfiguration. Adjacent keys belong to one provider.
func (p Params) encryptionConfig(ctx context.Context, k *pki.PKI, api string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: EncryptionConfiguration\nresources:\n  - resources: [secrets]\n    providers:\n", api)
	keys := false // the current provider takes more keys
	for _, name := range p.Encryption {
		if name == Plaintext {
			b.WriteString("      - identity: {}\n")
			keys = false
			continue
		}
		key, err := k.EncryptionKey(ctx, name)
		if err != nil {
			return "", err
		}
		if !keys {
			b.WriteString("      - secretbox:\n          keys:\n")
			keys = true
		}
		fmt.Fprintf(&b, "            - name: %s\n              secret: %s\n", name, base64.StdEncoding.EncodeToString(key))
	}
	return b.String(), nil
}

// EncryptionKeys are keys by name.
type EncryptionKeys map[string][]byte

// ReadEncryption parses the output of encryptionConfig into a list, as in Params.Encryption, and the keys. An empty configuration means plaintext. It
// returns fail.Invalid for a configuration that encryptionConfig can't have rendered; errors quote none of it.
func ReadEncryption(config []byte) (list []string, keys EncryptionKeys, err error) {
	if len(bytes.TrimSpace(config)) == 0 {
		return []string{Plaintext}, nil, nil
	}
	var c struct {
		APIVersion, Kind string
		Resources        []struct {
			Resources []string
			Providers []struct {
				Identity  *struct{}
				Secretbox struct {
					Keys []struct{ Name, Secret string }
				}
			}
		}
	}
	if yaml.UnmarshalStrict(config, &c) != nil || len(c.Resources) != 1 || !slices.Equal(c.Resources[0].Resources, []string{"secrets"}) {
		return nil, nil, fail.New(fail.Invalid, "the configuration is not of the form that naupegos writes").At(EncryptionPath)
	}
	keys = EncryptionKeys{}
	for _, p := range c.Resources[0].Providers {
		if p.Identity != nil {
			list = append(list, Plaintext)
		}
		for _, k := range p.Secretbox.Keys {
			key, err := base64.StdEncoding.DecodeString(k.Secret)
			if err != nil || len(key) != 32 || k.Name == "" {
				return nil, nil, fail.New(fail.Invalid, "the configuration holds an invalid key").At(EncryptionPath)
			}
			list, keys[k.Name] = append(list, k.Name), key
		}
	}
	if len(list) == 0 {
		return nil, nil, fail.New(fail.Invalid, "the configuration names no provider").At(EncryptionPath)
	}
	return list, keys, nil
}

// StoredPrefix returns the prefix of values in etcd that were written with this entry of Params.Encryption
// (k8s.io/apiserver/pkg/storage/value/encrypt). Every encrypted value begins with EncryptedPrefix.
func StoredPrefix(name string) string {
	if name == Plaintext {
		return ""
	}
	return EncryptedPrefix + "secretbox:v1:" + name + ":"
}

// EncryptedPrefix is the prefix of all encrypted values in etcd.
const EncryptedPrefix = "k8s:enc:"

// RegistryPrefix is the prefix of all of Kubernetes' keys in etcd.
const RegistryPrefix = "/registry/"

// SecretsPrefix is the prefix of the keys of Secrets in etcd.
const SecretsPrefix = "/registry/secrets/"
