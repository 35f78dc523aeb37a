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

// Names of secrets of a cluster: the key that signs its backups, which stays in the store, and the key that the store lets its machines sign with.
const (
	SigningSecret  = "backup-signing-key"         //nolint:gosec // a name
	MachinesSecret = "backup-machine-signing-key" //nolint:gosec // a name
)

// signatureFile lies beside the manifest and is written before it.
const signatureFile = "manifest.sig"

// What signatures are of, so that none passes for another.
const (
	signsManifest   = "naupegos backup manifest v1\x00"
	signsDelegation = "naupegos backup delegation v1\x00"
	signsProof      = "naupegos backup proof v1\x00"
)

// NewSigningKey returns a key that signs backups, as it is stored.
func NewSigningKey() []byte {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails: crypto/rand ends the program instead
	return []byte(base64.StdEncoding.EncodeToString(seed) + "\n")
}

func parseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize { // the cause may hold a part of it
		return nil, fail.New(fail.Invalid, "the key that signs backups is damaged")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey is a key that verifies what NewSigningKey's signs.
type PublicKey []byte

// PublicOf returns the public half of a key that NewSigningKey made.
func PublicOf(key []byte) (PublicKey, error) {
	private, err := parseSigningKey(key)
	if err != nil {
		return nil, err
	}
	return PublicKey(private.Public().(ed25519.PublicKey)), nil
}

// Fingerprint names a key for people: they note it, and give it to --signed-by.
func (k PublicKey) Fingerprint() string {
	sum := sha256.Sum256(k)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Signature says who wrote a manifest. Its JSON form is exact: another one is refused.
type Signature struct {
	Key PublicKey `json:"key"` // of the cluster
	// Endorsements vouch for Key to whoever has an identity that opens the set: MACs over Key by a key from the identity. Recipients of age authenticate
	// nobody, so that without one anybody could sign with a key of their own.
	Endorsements []string    `json:"endorsements,omitempty"`
	Delegation   *Delegation `json:"delegation,omitempty"` // nil: Key signed the manifest itself
	Signature    []byte      `json:"signature"`
}

// Delegation lets a key of the cluster's machines sign sets that differ only in when they were made and in etcd's data: what else a set says, and the
// operator's part, which has authorities and keys, are fixed in it by the cluster's own key, which machines don't have.
type Delegation struct {
	About     Manifest  `json:"about"`
	Key       PublicKey `json:"key"`
	Signature []byte    `json:"signature"`
}

// Signer signs sets of a cluster.
type Signer struct {
	private ed25519.PrivateKey
	form    Signature // without its signature
}

// NewSigner returns what signs with the cluster's key (of NewSigningKey), and endorses it with the first of the identities of a text: those below were replaced.
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

// endorse returns the MACs by which the holders of identities know a key.
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

// Delegate returns what machines sign with besides their key, whose public half this is.
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

// DelegatedSigner returns what machines sign with: their key, and what Delegate returned for it.
func DelegatedSigner(key []byte, form Signature) (*Signer, error) {
	private, err := parseSigningKey(key)
	if err != nil {
		return nil, err
	}
	if form.Delegation == nil || !bytes.Equal(form.Delegation.Key, private.Public().(ed25519.PublicKey)) {
		return nil, fail.New(fail.NotReady, "the key that signs this machine's backups is not the one that the operator's store delegated to").Do("naupegos apply")
	}
	return &Signer{private: private, form: form}, nil
}

func (d *Delegation) message() ([]byte, error) {
	bare := *d
	bare.Signature = nil
	return message(signsDelegation, bare)
}

// message returns what is signed: the JSON form of v, after what it is.
func message(what string, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "sign a backup")
	}
	return append([]byte(what), raw...), nil
}

// message covers the rest of the signature, too: a changed endorsement is as little the cluster's.
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

// text is the file that holds a signature.
func (s *Signature) text() ([]byte, error) {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a backup's signature")
	}
	return append(raw, '\n'), nil
}

// checkSignature returns a manifest's signature once every byte of both is as it was signed. Who signed is another question: see Trust.
func checkSignature(file, manifest []byte, m *Manifest) (*Signature, error) {
	refuse := func(what string) error {
		return fail.New(fail.Refused, "%s", what).Do("take another backup: somebody changed this one, or the storage is damaged")
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

// beyond names the first field of a manifest that is not as a delegation fixes it; empty: all are.
func (d *Delegation) beyond(m *Manifest) string {
	fixed := *m
	fixed.Format, fixed.ID, fixed.CreatedAt, fixed.Etcd, fixed.Parts, fixed.Bytes, fixed.SHA256 = d.About.Format, d.About.ID, d.About.CreatedAt, d.About.Etcd, d.About.Parts, d.About.Bytes, d.About.SHA256
	return differs(fixed, d.About)
}

// differs names the first field, in JSON, in which two manifests differ; empty: in none.
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

// Trust says whose signature counts.
type Trust struct {
	Known    PublicKey // the key of the cluster in the store; nil: the store does not know it
	SignedBy string    // the fingerprint that the operator gives; decides where it is not empty
	Unsigned bool      // a set counts though nothing vouches for it
}

// Verify refuses a set unless somebody vouches for who signed it: the operator by a fingerprint, else the store, else an endorsement by one of the
// identities in a text, which nobody makes without them.
func (s *Set) Verify(t Trust, identities []byte) error {
	refuse := func(hint, what string, args ...any) error {
		return fail.New(fail.Refused, what, args...).At(s.Where()).Do("%s", hint)
	}
	if s.signature == nil {
		if t.Unsigned {
			return nil
		}
		return refuse("take a signed one (naupegos backup list "+s.Cluster+"); --unsigned takes it all the same: only if nobody else can write where it lies",
			"backup %s is not signed, so that anybody who writes there may have made it", s.ID)
	}
	signer := s.signature.Key.Fingerprint()
	switch {
	case t.SignedBy != "" && t.SignedBy == signer:
		return nil
	case t.SignedBy != "":
		return refuse("take another one: somebody else made this one", "backup %s is signed by %s, not by %s", s.ID, signer, t.SignedBy)
	case t.Known != nil && bytes.Equal(t.Known, s.signature.Key), t.Unsigned:
		return nil
	case t.Known != nil:
		return refuse("take another one: somebody else made this one. Or give --signed-by "+signer+" if you know this key",
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
	return refuse("compare it with the fingerprint you noted (naupegos backup show prints it) and give it by --signed-by; --unsigned trusts whoever made it",
		"backup %s is signed by %s, and neither the store nor what opens the backup vouches for that key", s.ID, signer)
}

func hexOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readSignature reads and checks what signs a set's manifest; a set from before there were signatures has none.
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

// message is what a proof's signature is of.
func (p *Proof) message() ([]byte, error) {
	bare := *p
	bare.Signature = nil
	return message(signsProof, bare)
}

// signed reports whether a proof is what the cluster's key signed.
func (p *Proof) signed(key PublicKey) bool {
	m, err := p.message()
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(key), m, p.Signature)
}
