package backup

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Format is the version of the sets that this program writes. It reads this and earlier versions.
const Format = 1

// The files of a set.
const (
	manifestFile = "manifest.json"
	setFile      = "set.age"
	proofFile    = "proof.json"
)

// Manifest describes a set. It is not secret, can be read without a key and is written last: it completes the set.
type Manifest struct {
	Format     int       `json:"format"`
	ID         string    `json:"id"`
	Cluster    string    `json:"cluster"`             // its name
	ClusterID  string    `json:"clusterID"`           // as in the store; it differs between clusters of the same name
	Authority  string    `json:"authority,omitempty"` // SHA-256 of the certificate of Kubernetes' authority, by which clients identify the cluster
	CreatedAt  time.Time `json:"createdAt"`
	Reason     string    `json:"reason"` // why it was made
	Kubernetes string    `json:"kubernetes,omitempty"`
	Bundle     string    `json:"bundle,omitempty"` // ID of the last applied bundle
	Etcd       Etcd      `json:"etcd"`
	Parts      []string  `json:"parts"`
	Recipients []string  `json:"recipients"`         // keys that can open it
	Operator   string    `json:"operator,omitempty"` // SHA-256 of the operator's part, sealed
	Bytes      int64     `json:"bytes"`              // of set.age
	SHA256     string    `json:"sha256"`             // of set.age
}

// Etcd describes the etcd data in a set.
type Etcd struct {
	Version  string `json:"version,omitempty"`
	Member   string `json:"member,omitempty"`   // from which the snapshot was taken
	Revision int64  `json:"revision,omitempty"` // at which keys were counted, just before the snapshot; the snapshot includes this revision
	Keys     int64  `json:"keys,omitempty"`
	// Objects counts the keys at Revision by kind.
	Objects []Objects `json:"objects,omitempty"`
	Bytes   int64     `json:"bytes"`  // of the snapshot
	SHA256  string    `json:"sha256"` // of the snapshot
}

// Objects counts the keys of one kind.
type Objects struct {
	Kind   string `json:"kind"` // resource, preceded by its group if it has one: "pods", "apps/deployments"
	Count  int64  `json:"count"`
	Digest string `json:"digest"` // SHA-256 of all keys and values, in key order
}

// Proof states that a rehearsal opened a set and found it complete.
type Proof struct {
	ID     string    `json:"id"`
	SHA256 string    `json:"sha256"` // of the set.age that was proven
	At     time.Time `json:"at"`
	By     string    `json:"by"` // version of the program
	Checks []string  `json:"checks"`
	// Signature is by the cluster's key, which the opened set contains; empty for an unsigned set.
	Signature []byte `json:"signature,omitempty"`
}

// Set is one backup of one cluster.
type Set struct {
	Manifest
	SignedBy string `json:"signedBy,omitempty"` // fingerprint of the key that signed the manifest; empty: unsigned
	Proof    *Proof `json:"proof,omitempty"`    // nil: not proven yet
	// ProofProblem explains why an existing proof file does not count.
	ProofProblem string `json:"proofProblem,omitempty"`
	// Problem explains why a set can't be used; then Manifest has only Cluster, ID and CreatedAt.
	Problem string `json:"problem,omitempty"`

	target    Target
	signature *Signature // nil: the set is not signed
	unread    error      // why the target does not give the set; nil: it does
}

// Proven reports whether a rehearsal found this set complete.
func (s *Set) Proven() bool {
	return s.Proof != nil && s.Proof.ID == s.ID && s.Proof.SHA256 == s.SHA256
}

// Where returns the set's location for people.
func (s *Set) Where() string { return strings.TrimSuffix(s.target.String(), "/") + "/" + s.dir() }

func (s *Set) dir() string { return s.Cluster + "/" + s.ID }

// timeForm is the layout of the time at the start of IDs: sorting by name sorts by time.
const timeForm = "20060102T150405Z"

var idForm = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$`)

// newID returns the ID of a set made at a time.
func newID(at time.Time) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return at.UTC().Format(timeForm) + "-" + hex.EncodeToString(b[:])
}

// unreadable returns a set that the target lists but does not deliver, such as one that a rule of the bucket has archived, or one with another owner.
// If the target itself may be unavailable, it returns nil.
func unreadable(ctx context.Context, t Target, cluster, id string, err error) *Set {
	switch kind := fail.KindOf(err); {
	case ctx.Err() != nil, kind == fail.Unreachable, kind == fail.Interrupted, kind == fail.NotReady:
		return nil
	}
	s := &Set{target: t, Manifest: Manifest{Cluster: cluster, ID: id}, Problem: "it can't be read: " + err.Error(), unread: err}
	var e *fail.Error
	if errors.As(err, &e) && e.Hint != "" {
		s.Problem = "it can't be read: " + e.Hint
	}
	s.CreatedAt, _ = time.Parse(timeForm, id[:len(timeForm)]) // zero if the ID contains no time
	return s
}

// List returns a cluster's sets, newest first. A set that alone can't be read is among them, with its Problem.
func List(ctx context.Context, t Target, cluster string) ([]*Set, error) {
	files, err := t.List(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var all []*Set
	var first error
	given := false
	for _, f := range files {
		id, name, ok := inSet(cluster, f.Name)
		if !ok || name != manifestFile {
			continue
		}
		s, err := read(ctx, t, cluster, id)
		if fail.KindOf(err) == fail.NotFound {
			continue // removed in the meantime
		}
		if err != nil && s == nil {
			if s = unreadable(ctx, t, cluster, id, err); s == nil {
				return nil, err
			}
			first = cmp.Or(first, err)
		}
		given = given || s.unread == nil
		all = append(all, s)
	}
	if first != nil && !given {
		return nil, first // the credentials may be the cause
	}
	slices.SortFunc(all, func(a, b *Set) int { return strings.Compare(b.ID, a.ID) })
	return all, nil
}

// inSet splits the name of a set's file into the set's ID and the file in it.
func inSet(cluster, name string) (id, file string, ok bool) {
	rest, ok := strings.CutPrefix(name, cluster+"/")
	id, file, is := strings.Cut(rest, "/")
	return id, file, ok && is && idForm.MatchString(id)
}

// Open returns a cluster's set by ID, or the newest usable one for "latest"; fail.NotFound if it does not exist.
func Open(ctx context.Context, t Target, cluster, id string) (*Set, error) {
	if id == Latest {
		return latest(ctx, t, cluster)
	}
	if !idForm.MatchString(id) {
		return nil, fail.New(fail.Invalid, "%q is not the ID of a backup", id).Do("naupegos backup list %s names them", cluster)
	}
	s, err := read(ctx, t, cluster, id)
	if fail.KindOf(err) == fail.NotFound {
		return nil, fail.New(fail.NotFound, "there is no backup %s of cluster %s", id, cluster).At(t.String()).
			Do("naupegos backup list %s shows the existing ones", cluster)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Latest stands for the newest usable set.
const Latest = "latest"

func latest(ctx context.Context, t Target, cluster string) (*Set, error) {
	all, err := List(ctx, t, cluster)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		switch {
		case s.unread != nil: // it may be the requested one
			return nil, s.unread
		case s.Problem == "":
			return s, nil
		}
	}
	return nil, ErrNone(t, cluster)
}

// ErrNone returns the error (fail.NotFound) for a cluster without a backup.
func ErrNone(t Target, cluster string) error {
	return fail.New(fail.NotFound, "there is no backup of cluster %s", cluster).At(t.String()).Do("naupegos backup create %s makes one", cluster)
}

// Newest returns a cluster's newest usable set and its newest proven one, nil if there is none. It reads as little as possible.
func Newest(ctx context.Context, t Target, cluster, clusterID string) (last, proven *Set, err error) {
	files, err := t.List(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	var ids []string
	proof := map[string]bool{}
	for _, f := range files {
		switch id, name, ok := inSet(cluster, f.Name); {
		case ok && name == manifestFile:
			ids = append(ids, id)
		case ok && name == proofFile:
			proof[id] = true
		}
	}
	slices.Sort(ids)
	var first error
	for _, id := range slices.Backward(ids) {
		if last != nil && !proof[id] {
			continue
		}
		s, err := read(ctx, t, cluster, id)
		if s == nil && fail.KindOf(err) != fail.NotFound {
			if unreadable(ctx, t, cluster, id, err) == nil {
				return last, nil, err
			}
			first = cmp.Or(first, err)
		}
		if s == nil || s.Problem != "" || s.ClusterID != clusterID {
			continue
		}
		if last == nil {
			last = s
		}
		if s.Proven() {
			return last, s, nil
		}
	}
	if last == nil {
		return nil, nil, first
	}
	return last, nil, nil
}

// read reads a set's manifest, signature and proof. If the manifest or its signature is unusable, it returns the error and a set with a Problem.
func read(ctx context.Context, t Target, cluster, id string) (*Set, error) {
	s := &Set{target: t, Manifest: Manifest{Cluster: cluster, ID: id}}
	s.CreatedAt, _ = time.Parse(timeForm, id[:len(timeForm)]) // zero if the ID contains no time
	bad := func(err *fail.Error) (*Set, error) {
		s.Problem = err.What
		return s, err.At(s.Where())
	}
	raw, err := readSmall(ctx, t, path.Join(cluster, id, manifestFile))
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.Format < 1 {
		return bad(fail.New(fail.Invalid, "the manifest of the backup is damaged").Do("use another one"))
	}
	if m.Format > Format {
		return bad(fail.New(fail.Refused, "a newer naupegos wrote the backup (form %d, this one reads up to %d)", m.Format, Format).
			Do("use that naupegos"))
	}
	if m.Cluster != cluster || m.ID != id {
		return bad(fail.New(fail.Refused, "the backup is %s of cluster %s, and is stored in the place of another", m.ID, m.Cluster).
			Do("put it back where it belongs: %s/%s", m.Cluster, m.ID))
	}
	s.Manifest = m
	if err := s.readSignature(ctx, raw); err != nil {
		var e *fail.Error
		if fail.KindOf(err) != fail.Refused || !errors.As(err, &e) {
			return nil, err
		}
		s.Manifest = Manifest{Cluster: cluster, ID: id, CreatedAt: s.CreatedAt}
		s.CreatedAt, _ = time.Parse(timeForm, id[:len(timeForm)])
		return bad(e)
	}
	raw, err = readSmall(ctx, t, path.Join(cluster, id, proofFile))
	if fail.KindOf(err) == fail.NotFound {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var p Proof
	switch err := json.Unmarshal(raw, &p); {
	case err != nil:
		s.ProofProblem = proofFile + " is damaged"
	case s.signature != nil && !p.signed(s.signature.Key):
		s.ProofProblem = proofFile + " was changed: the cluster's key did not sign it"
	default:
		s.Proof = &p
	}
	return s, nil
}

// maxSmall bounds files that are read into memory.
const maxSmall = 16 << 20

func readSmall(ctx context.Context, t Target, name string) ([]byte, error) {
	r, _, err := t.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxSmall))
	if err != nil {
		return nil, classify(err, "read %s", name)
	}
	return raw, nil
}

// classify returns errors with a kind unchanged, and wraps others as fail.Refused.
func classify(err error, format string, args ...any) error {
	if k := fail.KindOf(err); k != fail.Internal {
		return err
	}
	return fail.Wrap(fail.Refused, err, format, args...)
}

// Prove stores a proof that a rehearsal found this set complete. key is the cluster's, from the opened set; nil for an unsigned set.
func (s *Set) Prove(ctx context.Context, key []byte, by string, at time.Time, checks ...string) error {
	p := &Proof{ID: s.ID, SHA256: s.SHA256, At: at.UTC().Truncate(time.Second), By: by, Checks: checks}
	if s.signature != nil {
		private, err := parseSigningKey(key)
		if err != nil {
			return err
		}
		m, err := p.message()
		if err != nil {
			return err
		}
		p.Signature = ed25519.Sign(private, m)
	}
	if err := writeJSON(ctx, s.target, s.dir()+"/"+proofFile, p); err != nil {
		return err
	}
	s.Proof = p
	return nil
}

func writeJSON(ctx context.Context, t Target, name string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write %s", name)
	}
	return writeSmall(ctx, t, name, append(raw, '\n'))
}

func writeSmall(ctx context.Context, t Target, name string, raw []byte) error {
	return t.Create(ctx, name, func(w io.Writer) error {
		if _, err := w.Write(raw); err != nil {
			return classify(err, "write %s", name)
		}
		return nil
	})
}
