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
	// backdate makes the validity of certificates begin in the past, for machines whose clock is a little behind.
	backdate = 5 * time.Minute
)

// PKI issues and stores a cluster's certificates and keys. It is safe for concurrent use within one process; processes
// synchronize by the cluster's lease.
type PKI struct {
	secrets Secrets
	o       Options

	mu          sync.Mutex            // held while a leaf is looked up and issued, so that each name gets one certificate
	authorities map[string]*authority // by secret; read once: an authority never changes
	generations map[string]Generations
	holds       bool // don't renew leaves that are still valid
}

// Open returns the PKI with its material in s. It reads and makes nothing yet.
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

// Ensure makes the signing generations of authorities and keys that don't exist yet. It never replaces existing ones.
func (k *PKI) Ensure(ctx context.Context) error {
	makers := map[string]func() ([]byte, error){
		ServiceAccountKeyName: newKeyPEM,
		encryptionKey:         newEncryptionKey,
		SSHKeyName:            newSSHKey,
	}
	for name, cn := range commonNames() {
		if !k.External() { // the issuer's authorities are read on first use
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

// ensure returns the secret name, and makes it if it doesn't exist. Concurrent callers get the same value.
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

// FirstEncryptionKey is the name of every cluster's initial encryption key.
const FirstEncryptionKey = "key1"

// EncryptionKey returns the 32-byte key of this name with which API servers encrypt secrets in etcd, and makes it if it doesn't exist.
func (k *PKI) EncryptionKey(ctx context.Context, name string) ([]byte, error) {
	return k.encryptionKey(ctx, name, newEncryptionKey)
}

// KeepEncryptionKey stores a key that API servers use; it fails with fail.Conflict if another key is stored under this name.
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
