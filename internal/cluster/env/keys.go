package env

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
)

// ToldRotation returns the rotation in progress, in the phase for which machines are rendered.
func (c *Env) ToldRotation() (rotation.Rotation, error) {
	return rotation.Parse(c.Facts.Get(memory.Rotation))
}

// Generations returns the generations of all keys that are in use in a phase.
func (c *Env) Generations(r rotation.Rotation) map[string]pki.Generations {
	in := map[string]pki.Generations{}
	for _, key := range pki.Rotated() {
		in[key] = r.In(key, c.Generation(key))
	}
	return in
}

// Generation returns the generation of a key outside of a rotation.
func (c *Env) Generation(key string) int {
	n := 1
	if fact := c.Facts.Of(memory.Generation, key); fact != "" {
		if _, err := fmt.Sscan(fact, &n); err != nil {
			return 1
		}
	}
	return n
}

// Held reports whether all machines have reached the phase in which a rotation stays until the operator finishes or abandons it.
func (c *Env) Held(now rotation.Rotation) bool {
	return now.Phase == rotation.Use && c.Facts.Is(memory.RotationHold) && c.Facts.Get(memory.RotationRun) == now.String()
}

// Rotating reports whether a later plan has more to do.
func (c *Env) Rotating() bool {
	now, err := c.ToldRotation()
	return err == nil && !now.IsZero() && !c.Held(now)
}

// ProviderList is a list as its fact has it.
func ProviderList(fact string) []string {
	if fact == "" {
		return nil
	}
	return strings.Split(fact, ",")
}

// FinalProviders returns the list for encryption at rest being on, by this key, or off.
func FinalProviders(on bool, key string) []string {
	if on {
		return []string{key, layout.Plaintext} // Secrets written before encryption stay readable
	}
	return []string{layout.Plaintext}
}

// Encryption returns the list of providers that API servers should run with now: the remembered list, else the list of the document that the cluster was
// last brought to, else the list of its present document.
func (c *Env) Encryption() ([]string, error) {
	if list := ProviderList(c.Facts.Get(memory.Encryption)); list != nil {
		return list, nil
	}
	was := c.Facts.Get(memory.Converged)
	if was == "" || !c.Facts.Bootstrapped() {
		return c.FinalEncryption(), nil
	}
	before, err := validation.Parse("the document that "+c.Name()+" was brought to", []byte(was))
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "find out whether the Secrets of cluster %s are encrypted", c.Name())
	}
	return FinalProviders(*before.Spec.Security.EncryptionAtRest, c.EncryptionKey()), nil
}

// EncryptionKey returns the name of the key that API servers write Secrets with, if they encrypt them.
func (c *Env) EncryptionKey() string {
	if name := c.Facts.Get(memory.EncryptionKey); name != "" {
		return name
	}
	return pki.FirstEncryptionKey
}

// FinalEncryption lists the providers that API servers have once nothing of the encryption is in progress.
func (c *Env) FinalEncryption() []string {
	return FinalProviders(*c.Doc.Spec.Security.EncryptionAtRest, c.EncryptionKey())
}

// EncryptionKeyPrefix begins the names of encryption keys; a number follows.
const EncryptionKeyPrefix = "key"

// EncryptionChanging reports whether a later plan has more to do.
func (c *Env) EncryptionChanging() bool {
	list := c.Facts.Get(memory.Encryption)
	return c.Facts.Bootstrapped() && list != "" && list != strings.Join(c.FinalEncryption(), ",")
}
