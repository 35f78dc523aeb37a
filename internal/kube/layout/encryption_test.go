package layout

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEncryptionIsReadAsWritten: ReadEncryption returns every list that encryptionConfig renders, with its keys.
func TestEncryptionIsReadAsWritten(t *testing.T) {
	k := testPKI(t, testTime)
	for _, list := range [][]string{{"key1", Plaintext}, {Plaintext, "key1"}, {"key1", Plaintext, "key2"}, {"key2", "key1", Plaintext}, {"key12", Plaintext}} {
		p := testParams()
		p.Encryption = list
		config := testkit.Value(p.encryptionConfig(t.Context(), k, "apiserver.config.k8s.io/v1"))(t)
		got, keys, err := ReadEncryption([]byte(config))
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("%v is read as %v: %v", list, got, err)
		}
		for _, name := range list {
			if name == Plaintext {
				continue
			}
			if want := testkit.Value(k.EncryptionKey(t.Context(), name))(t); !bytes.Equal(keys[name], want) {
				t.Errorf("%v: %s is another key", list, name)
			}
		}
	}
	if list, keys, err := ReadEncryption(nil); err != nil || !slices.Equal(list, []string{Plaintext}) || len(keys) > 0 {
		t.Errorf("no configuration is read as %v, %v: %v", list, keys, err)
	}
}

// TestOthersEncryptionIsRefused: ReadEncryption refuses other configurations and quotes none of them.
func TestOthersEncryptionIsRefused(t *testing.T) {
	p := testParams()
	p.Encryption = []string{pki.FirstEncryptionKey, Plaintext}
	ours := testkit.Value(p.encryptionConfig(t.Context(), testPKI(t, testTime), "apiserver.config.k8s.io/v1"))(t)
	secret := ours[strings.Index(ours, "secret: ")+len("secret: "):]
	secret = secret[:strings.IndexByte(secret, '\n')]
	for name, config := range map[string]string{
		"another provider": strings.Replace(ours, "secretbox:", "aescbc:", 1),
		"more resources":   strings.Replace(ours, "[secrets]", "[secrets, configmaps]", 1),
		"a short key":      strings.Replace(ours, secret, secret[:20], 1),
		"no provider":      ours[:strings.Index(ours, "providers:")] + "providers: []\n",
		"no YAML":          ours + "\t" + secret,
	} {
		_, _, err := ReadEncryption([]byte(config))
		testkit.Fails(t, err, fail.Invalid, EncryptionPath)
		if err != nil && strings.Contains(err.Error(), secret[:20]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}
