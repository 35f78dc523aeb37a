package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// Files in set.age, a compressed tar archive encrypted by age, in their order. The snapshot, whose size is unknown in advance, is split into pieces of
// known size: snapshot.db/000000 and so on; cat joins them.
const (
	aboutName     = "about.json"    // the manifest before any data was written; tampering with manifest.json does not change it
	operatorName  = "operator.age"  // the operator's part, encrypted separately: machines that make sets can't open it
	snapshotName  = "snapshot.db"   // etcd's data
	endName       = "end.json"      // Etcd; it comes last: an archive without it is truncated
	documentName  = "document.yaml" // in the operator's part
	recordName    = "record.json"   // in the operator's part
	secretsPrefix = "secrets/"      // in the operator's part, by name
)

// pieceSize bounds how much of a snapshot is held in memory.
const pieceSize = 4 << 20

// parts returns the names of a set's parts in manifests.
func parts() []string { return []string{"etcd", "document", "record", "secrets"} }

// Operator is the operator's part of a set: the store's knowledge of the cluster.
type Operator struct {
	Document []byte // as last applied
	Record   Record
	Secrets  map[string][]byte
}

// Record is a cluster's row in the store.
type Record struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Provider  string    `json:"provider"`
	Facts     []Fact    `json:"facts"`
	Bundle    string    `json:"bundle,omitempty"` // ID of the last applied bundle
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Fact is one fact of a Record.
type Fact struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject,omitempty"`
	Value   string `json:"value"`
}

// Seal encrypts the operator's part to recipients.
func (o *Operator) Seal(recipients []string) ([]byte, error) {
	to, err := parseRecipients(recipients)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = archive(&out, to, func(t *tar.Writer) error {
		if err := entry(t, documentName, o.Document); err != nil {
			return err
		}
		raw, err := json.MarshalIndent(o.Record, "", "  ")
		if err != nil {
			return err
		}
		if err := entry(t, recordName, raw); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(o.Secrets)) {
			if err := entry(t, secretsPrefix+name, o.Secrets[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encrypt the store's record of the cluster")
	}
	return out.Bytes(), nil
}

// Source describes the content of a new set.
type Source struct {
	About    Manifest // Cluster, ClusterID, Authority, Reason, Kubernetes, Bundle and Recipients
	Operator []byte   // the operator's part, sealed
	// Snapshot writes etcd's data and describes it; Bytes and SHA256 may stay empty.
	Snapshot func(ctx context.Context, w io.Writer) (Etcd, error)
	Sign     *Signer          // nil: the set is not signed
	Now      func() time.Time // the clock; nil means time.Now
}

// Create makes a set. First it removes the remains of incomplete sets.
func Create(ctx context.Context, t Target, src Source) (*Set, error) {
	to, err := parseRecipients(src.About.Recipients)
	if err != nil {
		return nil, err
	}
	if src.Now == nil {
		src.Now = time.Now
	}
	m := src.About
	m.Format, m.CreatedAt, m.Parts = Format, src.Now().UTC().Truncate(time.Second), parts()
	m.ID, m.Operator = newID(m.CreatedAt), hexOf(src.Operator)
	if err := sweep(ctx, t, m.Cluster, src.Now()); err != nil {
		return nil, err
	}
	s := &Set{Manifest: m, target: t}
	err = t.Create(ctx, s.dir()+"/"+setFile, func(w io.Writer) error {
		out := &counted{w: w, h: sha256.New()}
		err := archive(out, to, func(a *tar.Writer) (err error) {
			s.Etcd, err = src.write(ctx, a, m)
			return err
		})
		s.Bytes, s.SHA256 = out.n, hex.EncodeToString(out.h.Sum(nil))
		return err
	})
	if err != nil {
		return nil, classify(err, "write a backup to %s", t)
	}
	if err := s.publish(ctx, src.Sign); err != nil {
		// Best effort: the next backup would remove these files, too. ctx may have ended and caused the failure.
		_ = t.Remove(context.WithoutCancel(ctx), s.dir()+"/"+signatureFile, s.dir()+"/"+setFile)
		return nil, err
	}
	return s, nil
}

// publish writes the signature, then the manifest, which completes the set.
func (s *Set) publish(ctx context.Context, by *Signer) error {
	manifest, err := json.MarshalIndent(s.Manifest, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the manifest of a backup")
	}
	manifest = append(manifest, '\n')
	if by != nil {
		if s.signature, err = by.sign(manifest); err != nil {
			return err
		}
		text, err := s.signature.text()
		if err != nil {
			return err
		}
		if _, err := checkSignature(text, manifest, &s.Manifest); err != nil { // refuses a machine's manifest that its delegation does not cover
			return err
		}
		if err := writeSmall(ctx, s.target, s.dir()+"/"+signatureFile, text); err != nil {
			return err
		}
		s.SignedBy = s.signature.Key.Fingerprint()
	}
	return writeSmall(ctx, s.target, s.dir()+"/"+manifestFile, manifest)
}

// write writes the files of a set.
func (src *Source) write(ctx context.Context, a *tar.Writer, about Manifest) (e Etcd, err error) {
	raw, err := json.Marshal(about)
	if err != nil {
		return e, err
	}
	if err := entry(a, aboutName, raw); err != nil {
		return e, err
	}
	if err := entry(a, operatorName, src.Operator); err != nil {
		return e, err
	}
	p := &pieces{to: a}
	out := &counted{w: p, h: sha256.New()}
	if e, err = src.Snapshot(ctx, out); err != nil {
		return e, err
	}
	if err := p.flush(); err != nil {
		return e, err
	}
	e.Bytes, e.SHA256 = out.n, hex.EncodeToString(out.h.Sum(nil))
	if raw, err = json.Marshal(e); err != nil {
		return e, err
	}
	return e, entry(a, endName, raw)
}

// archive writes a compressed tar archive, encrypted.
func archive(w io.Writer, to []age.Recipient, fill func(*tar.Writer) error) error {
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(sealed, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := fill(t); err != nil {
		return err
	}
	for _, c := range []io.Closer{t, z, sealed} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

func entry(t *tar.Writer, name string, data []byte) error {
	err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatPAX})
	if err == nil {
		_, err = t.Write(data)
	}
	return err
}

// pieces writes a stream of unknown length as several archive files.
type pieces struct {
	to  *tar.Writer
	buf []byte
	n   int
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		take := min(len(b), pieceSize-len(p.buf))
		p.buf = append(p.buf, b[:take]...)
		b, n = b[take:], n+take
		if len(p.buf) == pieceSize {
			if err := p.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (p *pieces) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	err := entry(p.to, pieceName(p.n), p.buf)
	p.n, p.buf = p.n+1, p.buf[:0]
	return err
}

func pieceName(n int) string { return fmt.Sprintf("%s/%06d", snapshotName, n) }

// counted counts and hashes the bytes written through it.
type counted struct {
	w io.Writer
	h hash.Hash
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	_, _ = c.h.Write(b[:n]) // hashes never fail
	c.n += int64(n)
	return n, err
}

// sweep removes the remains of incomplete sets and files that are older than the target's grace.
func sweep(ctx context.Context, t Target, cluster string, now time.Time) error {
	files, err := t.List(ctx, cluster)
	if err != nil {
		return err
	}
	whole := map[string]bool{}
	for _, f := range files {
		if id, name, ok := inSet(cluster, f.Name); ok && name == manifestFile {
			whole[id] = true
		}
	}
	if len(files) > 0 && t.Grace() != 0 { // age by the clock that dates the files: this host's may be ahead
		newest := slices.MaxFunc(files, func(a, b File) int { return a.Modified.Compare(b.Modified) })
		if newest.Modified.Before(now) {
			now = newest.Modified
		}
	}
	var rest []string
	for _, f := range files {
		id, name, ok := inSet(cluster, f.Name)
		if ok && (!whole[id] || name[0] == '.') && (t.Grace() == 0 || f.Modified.Before(now.Add(-t.Grace()))) {
			rest = append(rest, f.Name)
		}
	}
	return t.Remove(ctx, rest...)
}
