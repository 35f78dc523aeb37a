package pki

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Options sets lifetimes. The zero value is usable.
type Options struct {
	Now          func() time.Time // the clock; nil means time.Now
	CAValidity   time.Duration    // of authorities; 0 means 10 years
	LeafValidity time.Duration    // of leaves; 0 means 1 year
	RenewBefore  time.Duration    // a leaf is reissued this long before it expires; 0 means a third of LeafValidity
	Issuer       Issuer           // signs for the authorities; nil: their keys are among the Secrets
}

const (
	year = 365 * 24 * time.Hour
	// backdate makes certificates valid on machines whose clock is a little behind.
	backdate = 5 * time.Minute
)

// PKI issues and remembers a cluster's certificates and keys. It is safe for concurrent use within one process; between
// processes the cluster's lease keeps order.
type PKI struct {
	secrets Secrets
	o       Options

	mu          sync.Mutex            // held while a leaf is looked up and issued, so that one name has one certificate
	authorities map[string]*authority // by secret; read once: an authority never changes
	generations map[string]Generations
	holds       bool // leaves that are due stay
}

// Open returns the PKI whose material is in s. Nothing is read or made before it is asked for.
func Open(s Secrets, o Options) *PKI {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CAValidity == 0 {
		o.CAValidity = 10 * year
	}
	if o.LeafValidity == 0 {
		o.LeafValidity = year
	}
	if o.RenewBefore == 0 {
		o.RenewBefore = o.LeafValidity / 3
	}
	return &PKI{secrets: s, o: o, authorities: map[string]*authority{}, generations: map[string]Generations{}}
}

// Ensure makes the authorities and keys that don't exist yet, of the generation that signs. What exists is never replaced.
func (k *PKI) Ensure(ctx context.Context) error {
	makers := map[string]func() ([]byte, error){
		ServiceAccountKeyName: newKeyPEM,
		encryptionKey:         newEncryptionKey,
		SSHKeyName:            newSSHKey,
	}
	for name, cn := range commonNames() {
		if !k.External() { // else they are asked for when they are needed
			makers[authorityPrefix+name] = func() ([]byte, error) { return k.newAuthority(cn) }
		}
	}
	for name, make := range makers {
		signs := k.Generations(strings.TrimPrefix(name, authorityPrefix)).Signs
		if _, err := k.ensure(ctx, secretOf(name, signs), make); err != nil {
			return err
		}
	}
	return nil
}

// ensure returns the value of name, made first where there is none. Two makers at once get the same value.
func (k *PKI) ensure(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	v, err := k.secrets.Get(ctx, name)
	if err == nil || fail.KindOf(err) != fail.NotFound {
		return v, wrap(err, "read the secret").at(name)
	}
	if v, err = make(); err != nil {
		return nil, wrap(err, "make the secret").at(name)
	}
	v, err = k.secrets.PutIfAbsent(ctx, name, v)
	return v, wrap(err, "remember the secret").at(name)
}

// FirstEncryptionKey is the name of the encryption key that every cluster is born with.
const FirstEncryptionKey = "key1"

// EncryptionKey returns the 32 bytes by which API servers encrypt secrets in etcd, made first where no key has this name yet.
func (k *PKI) EncryptionKey(ctx context.Context, name string) ([]byte, error) {
	return k.encryptionKey(ctx, name, newEncryptionKey)
}

// KeepEncryptionKey remembers a key that API servers have; fail.Conflict where another one is remembered by its name.
func (k *PKI) KeepEncryptionKey(ctx context.Context, name string, key []byte) error {
	v, err := k.encryptionKey(ctx, name, func() ([]byte, error) { return key, nil })
	if err == nil && !bytes.Equal(v, key) {
		return fail.New(fail.Conflict, "API servers have another encryption key %s than the one that is remembered", name)
	}
	return err
}

func (k *PKI) encryptionKey(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	secret := encryptionKey
	if name != FirstEncryptionKey {
		secret += "/" + name
	}
	v, err := k.ensure(ctx, secret, make)
	if err == nil && len(v) != 32 {
		return nil, fail.New(fail.Internal, "the key has %d bytes, not 32", len(v)).At(secret)
	}
	return v, err
}

func newEncryptionKey() ([]byte, error) {
	b := make([]byte, 32)
	_, err := rand.Read(b)
	return b, err
}
