package layout

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/pki"
)

// Plaintext stands among Params.Encryption for Secrets that are stored as they are (Kubernetes' provider "identity").
const Plaintext = "identity"

// encrypts reports whether API servers know any key: without one there is nothing to configure.
func (p Params) encrypts() bool {
	return slices.ContainsFunc(p.Encryption, func(s string) bool { return s != Plaintext })
}

// encryptionConfig renders API servers' EncryptionConfiguration. Keys that stand side by side are one provider's.
func (p Params) encryptionConfig(ctx context.Context, k *pki.PKI, api string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: EncryptionConfiguration\nresources:\n  - resources: [secrets]\n    providers:\n", api)
	keys := false // the provider at hand takes more keys
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

// StoredPrefix returns what values in etcd begin with that were written by this of Params.Encryption
// (k8s.io/apiserver/pkg/storage/value/encrypt); every value that is encrypted begins with EncryptedPrefix.
func StoredPrefix(name string) string {
	if name == Plaintext {
		return ""
	}
	return EncryptedPrefix + "secretbox:v1:" + name + ":"
}

// EncryptedPrefix begins all encrypted values in etcd.
const EncryptedPrefix = "k8s:enc:"

// SecretsPrefix is below what Secrets lie in etcd.
const SecretsPrefix = "/registry/secrets/"
