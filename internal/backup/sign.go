package backup

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// Names of a cluster's secrets: the key that signs its backups, which never leaves the store, and its machines' signing key.
const (
	SigningSecret  = "backup-signing-key"
	MachinesSecret = "backup-machine-signing-key"
)

// signatureFile is next to the manifest and is written before it.
const signatureFile = "manifest.sig"

// Domains of signatures, which keep one kind from passing as another.
const (
	signsManifest   = "naupegos backup manifest v1\x00"
	signsDelegation = "naupegos backup delegation v1\x00"
	signsProof      = "naupegos backup proof v1\x00"
)

// NewSigningKey returns a new signing key for backups in its stored form.
func NewSigningKey() []byte {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails: crypto/rand ends the program instead
	return []byte(base64.StdEncoding.EncodeToString(seed) + "\n")
}

func parseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize { // the cause might quote it
		return nil, fail.New(fail.Invalid, "the key that signs backups is damaged")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey verifies signatures of a key from NewSigningKey.
type PublicKey []byte

// PublicOf returns the public half of a key from NewSigningKey.
func PublicOf(key []byte) (PublicKey, error) {
	private, err := parseSigningKey(key)
	if err != nil {
		return nil, err
	}
	return PublicKey(private.Public().(ed25519.PublicKey)), nil
}

// Fingerprint identifies a key to operators, who pass it to --signed-by.
func (k PublicKey) Fingerprint() string {
	sum := sha256.Sum256(k)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Signature authenticates a manifest's author. Only its exact JSON form is accepted.
type Signature struct {
	Key PublicKey `json:"key"` // of the cluster
	// Endorsements authenticate Key to holders of an identity that opens the set: MACs over Key with a key derived from the identity. Without
	// them, an attacker could sign with another key, because age recipients are public.
	Endorsements []string    `json:"endorsements,omitempty"`
	Delegation   *Delegation `json:"delegation,omitempty"` // nil: Key signed the manifest itself
	Signature    []byte      `json:"signature"`
}

// Delegation permits the machines' key to sign sets that differ only in time and in etcd's data. The cluster's own key, which machines don't have, signs
// the rest: the other fields of the manifest, and the operator's part with authorities and keys.
type Delegation struct {
	About     Manifest  `json:"about"`
	Key       PublicKey `json:"key"`
	Signature []byte    `json:"signature"`
}

// Signer signs a cluster's sets.
type Signer struct {
	private ed25519.PrivateKey
	form    Signature // without its signature
}

// NewSigner returns a Signer with the cluster's key (from NewSigningKey). It endorses the key with the first identity in a text; the others are former
// ones.
func NewSigner(key, identities []byte, clusterID string) (*Signer, error) {
	private, err := parseSigningKey(key)
	if err != nil {
		return nil, err
	}
	s := &Signer{private: private, form: Signature{Key: PublicKey(private.Public().(ed25519.PublicKey))}}
	all, err := endorse(identities, clusterID, s.form.Key)
	if err != nil {
		return nil, err
	}
	s.form.Endorsements = all[:min(1, len(all))]
	return s, nil
}

// endorse returns the MACs that authenticate a key to the holders of identities.
func endorse(identities []byte, clusterID string, key PublicKey) (all []string, err error) {
	with, err := parseIdentities(identities)
	if err != nil {
		return nil, err
	}
	for _, id := range with {
		native, ok := id.(*age.X25519Identity)
		if !ok {
			continue
		}
		k, err := hkdf.Key(sha256.New, []byte(native.String()), nil, "naupegos backup signer v1", sha256.Size)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "endorse the key that signs backups")
		}
		h := hmac.New(sha256.New, k)
		_, _ = h.Write([]byte(clusterID + "\x00")) // hashes never fail
		_, _ = h.Write(key)
		all = append(all, hex.EncodeToString(h.Sum(nil)))
	}
	return all, nil
}

// Delegate returns the delegation for the machines' key with this public half.
func (s *Signer) Delegate(key PublicKey, about Manifest, operator []byte) (Signature, error) {
	about.Operator = hexOf(operator)
	d := &Delegation{About: about, Key: key}
	message, err := d.message()
	if err != nil {
		return Signature{}, err
	}
	d.Signature = ed25519.Sign(s.private, message)
	form := s.form
	form.Delegation = d
	return form, nil
}

// DelegatedSigner returns the machines' Signer, given their key and the result of Delegate.
func DelegatedSigner(key []byte, form Signature) (*Signer, error) {
	private, err := parseSigningKey(key)
	if err != nil {
		return nil, err
	}
	if form.Delegation == nil || !bytes.Equal(form.Delegation.Key, private.Public().(ed25519.PublicKey)) {
		return nil, fail.New(fail.NotReady, "this machine's backup signing key does not match the store's delegation").Do("naupegos apply")
	}
	return &Signer{private: private, form: form}, nil
}

func (d *Delegation) message() ([]byte, error) {
	bare := *d
	bare.Signature = nil
	return message(signsDelegation, bare)
}

// message returns the signed bytes: a domain, then the JSON form of v.
func message(what string, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "sign a backup")
	}
	return append([]byte(what), raw...), nil
}

// message covers the other fields of the signature too, such as endorsements.
func (s *Signature) message(manifest []byte) ([]byte, error) {
	bare := *s
	bare.Signature = nil
	return message(signsManifest, struct {
		Signature Signature
		Manifest  string
	}{bare, hexOf(manifest)})
}

func (s *Signer) sign(manifest []byte) (*Signature, error) {
	form := s.form
	m, err := form.message(manifest)
	if err != nil {
		return nil, err
	}
	form.Signature = ed25519.Sign(s.private, m)
	return &form, nil
}

// text returns the content of a signature's file.
func (s *Signature) text() ([]byte, error) {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a backup's signature")
	}
	return append(raw, '\n'), nil
}

// checkSignature verifies a manifest's signature and returns it. It does not judge the signer: see Trust.
func checkSignature(file, manifest []byte, m *Manifest) (*Signature, error) {
	refuse := func(what string) error {
		return fail.New(fail.Refused, "%s", what).Do("take another backup: this one was changed, or the storage is damaged")
	}
	var s Signature
	if err := json.Unmarshal(file, &s); err != nil || len(s.Key) != ed25519.PublicKeySize {
		return nil, refuse(signatureFile + " is damaged")
	}
	if again, err := s.text(); err != nil || !bytes.Equal(again, file) {
		return nil, refuse(signatureFile + " was changed: its form is not the one that was written")
	}
	by := s.Key
	if d := s.Delegation; d != nil {
		message, err := d.message()
		if err != nil {
			return nil, err
		}
		if len(d.Key) != ed25519.PublicKeySize || !ed25519.Verify(ed25519.PublicKey(s.Key), message, d.Signature) {
			return nil, refuse(signatureFile + " was changed: the cluster's key did not sign what the machines' key may")
		}
		if field := d.beyond(m); field != "" {
			return nil, refuse(manifestFile + " says of " + field + " what the cluster's key did not permit a machine to sign")
		}
		by = d.Key
	}
	message, err := s.message(manifest)
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(ed25519.PublicKey(by), message, s.Signature) {
		return nil, refuse(manifestFile + " or " + signatureFile + " was changed: the signature does not fit")
	}
	return &s, nil
}

// beyond returns the first field of a manifest that violates a delegation, if any.
func (d *Delegation) beyond(m *Manifest) string {
	fixed := *m
	fixed.Format, fixed.ID, fixed.CreatedAt, fixed.Etcd, fixed.Parts, fixed.Bytes, fixed.SHA256 = d.About.Format, d.About.ID, d.About.CreatedAt, d.About.Etcd, d.About.Parts, d.About.Bytes, d.About.SHA256
	return differs(fixed, d.About)
}

// differs returns the first JSON field that differs between two manifests, if any.
func differs(a, b Manifest) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		p, q := x.Field(i).Interface(), y.Field(i).Interface()
		if at, ok := p.(time.Time); ok && at.Equal(q.(time.Time)) {
			continue
		}
		if !reflect.DeepEqual(p, q) {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// Trust selects the accepted signers.
type Trust struct {
	Known    PublicKey // the cluster's key in the store; nil: unknown
	SignedBy string    // fingerprint from the operator; takes precedence if set
	Unsigned bool      // accept sets without an authenticated signer
}

// Verify refuses a set whose signer is not authenticated: by the operator's fingerprint, else by the store, else by an endorsement with one of the
// identities in a text.
func (s *Set) Verify(t Trust, identities []byte) error {
	refuse := func(hint, what string, args ...any) error {
		return fail.New(fail.Refused, what, args...).At(s.Where()).Do("%s", hint)
	}
	if s.signature == nil {
		if t.Unsigned {
			return nil
		}
		return refuse("take a signed one (naupegos backup list "+s.Cluster+"); --unsigned accepts it anyway: give it only if others can't write there",
			"backup %s is not signed: anyone who can write there may have made it", s.ID)
	}
	signer := s.signature.Key.Fingerprint()
	switch {
	case t.SignedBy != "" && t.SignedBy == signer:
		return nil
	case t.SignedBy != "":
		return refuse("take another one: this one has another signer", "backup %s is signed by %s, not by %s", s.ID, signer, t.SignedBy)
	case t.Known != nil && bytes.Equal(t.Known, s.signature.Key), t.Unsigned:
		return nil
	case t.Known != nil:
		return refuse("take another one: this one has another signer. Or give --signed-by "+signer+" if you know this key",
			"backup %s is signed by %s, and the key of cluster %s in the store is %s", s.ID, signer, s.Cluster, t.Known.Fingerprint())
	}
	mine, err := endorse(identities, s.ClusterID, s.signature.Key)
	if err != nil {
		return err
	}
	for _, e := range mine {
		if slices.ContainsFunc(s.signature.Endorsements, func(is string) bool { return hmac.Equal([]byte(is), []byte(e)) }) {
			return nil
		}
	}
	return refuse("compare it with the fingerprint you noted (naupegos backup show prints it) and give it by --signed-by; --unsigned accepts any signer",
		"backup %s is signed by %s, and neither the store nor what opens the backup vouches for that key", s.ID, signer)
}

func hexOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readSignature reads and verifies the signature of a set's manifest. Older sets have none.
func (s *Set) readSignature(ctx context.Context, manifest []byte) error {
	file, err := readSmall(ctx, s.target, s.dir()+"/"+signatureFile)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if s.signature, err = checkSignature(file, manifest, &s.Manifest); err != nil {
		return err
	}
	s.SignedBy = s.signature.Key.Fingerprint()
	return nil
}

// message returns the signed bytes of a proof.
func (p *Proof) message() ([]byte, error) {
	bare := *p
	bare.Signature = nil
	return message(signsProof, bare)
}

// signed reports whether the cluster's key signed a proof.
func (p *Proof) signed(key PublicKey) bool {
	m, err := p.message()
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(key), m, p.Signature)
}
