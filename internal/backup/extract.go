package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// Contents is the content of a set.
type Contents struct {
	Manifest
	SnapshotPath string // etcd's data, its checksums verified
	Operator
	BundleID string // of the last applied bundle
}

// Extract opens a set with the identities in a text (AGE-SECRET-KEY-1…, one a line) and writes its snapshot into dir, which must be private to this
// user. It verifies everything: fail.Unauthorized if the identities don't open the set, fail.Invalid if it is damaged, fail.Refused if its content
// does not match its place or its manifest, or if trust does not cover its signer (see Verify).
func (s *Set) Extract(ctx context.Context, identities []byte, trust Trust, dir string) (_ *Contents, err error) {
	with, err := parseIdentities(identities)
	if err != nil {
		return nil, err
	}
	if err := s.Verify(trust, identities); err != nil {
		return nil, err
	}
	r, size, err := s.target.Open(ctx, s.dir()+"/"+setFile)
	if fail.KindOf(err) == fail.NotFound {
		return nil, s.damaged(nil, "the backup has lost its file %s", setFile)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size != s.Bytes {
		return nil, s.damaged(nil, "the backup has %d bytes instead of %d: it was cut off, or something else was written over it", size, s.Bytes)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(filepath.Join(dir, snapshotName)) // it can't be trusted
		}
	}()
	in := &hashed{ctx: ctx, r: r, h: sha256.New()}
	c, err := s.open(in, with, dir)
	if kind := fail.KindOf(err); ctx.Err() != nil || err != nil && kind != fail.Internal && kind != fail.Unauthorized {
		return nil, errors.Join(ctx.Err(), err)
	}
	// A wrong checksum of the whole file explains more than the error that the damage caused.
	if _, e := io.Copy(io.Discard, in); e != nil {
		return nil, classify(e, "read the backup %s", s.ID)
	}
	if got := hex.EncodeToString(in.h.Sum(nil)); got != s.SHA256 {
		return nil, s.damaged(nil, "the backup is not as it was written: its SHA-256 is %s instead of %s", got, s.SHA256)
	}
	if fail.KindOf(err) == fail.Unauthorized {
		return nil, err
	}
	if err != nil {
		return nil, s.damaged(err, "open the backup")
	}
	return c, nil
}

func (s *Set) damaged(err error, format string, args ...any) error {
	e := fail.New(fail.Invalid, format, args...)
	e.Err = err
	return e.At(s.Where()).Do("use another one: naupegos backup list %s", s.Cluster)
}

// open reads a set from its first byte. An error without a kind means that the archive is damaged.
func (s *Set) open(in io.Reader, with []age.Identity, dir string) (*Contents, error) {
	t, err := s.unseal(in, with)
	if err != nil {
		return nil, err
	}
	raw, err := expect(t, aboutName)
	if err != nil {
		return nil, err
	}
	if err := s.check(raw); err != nil {
		return nil, err
	}
	c := &Contents{Manifest: s.Manifest, SnapshotPath: filepath.Join(dir, snapshotName)}
	if raw, err = expect(t, operatorName); err != nil {
		return nil, err
	}
	if s.Operator != "" && hexOf(raw) != s.Operator {
		return nil, s.damaged(nil, "%s in the backup is not the one that its manifest names", operatorName)
	}
	if err := s.openOperator(raw, with, &c.Operator); err != nil {
		return nil, err
	}
	c.BundleID = c.Record.Bundle
	if err := s.snapshot(t, c.SnapshotPath); err != nil {
		return nil, err
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, errors.New("something follows after its end"))
	}
	return c, nil
}

// unseal decrypts an archive.
func (s *Set) unseal(in io.Reader, with []age.Identity) (*tar.Reader, error) {
	plain, err := age.Decrypt(in, with...)
	if noKey(err) {
		return nil, fail.New(fail.Unauthorized, "the backup can't be opened with this key: it is encrypted for %s", strings.Join(s.Recipients, ", ")).
			At(s.Where()).Do("give the identity of one of them; the first is that of the store that made it (identity.age)")
	}
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(plain)
	if err != nil {
		return nil, err
	}
	return tar.NewReader(z), nil
}

// check compares the manifest inside the set, which can't be changed without the set's key, with the manifest file.
func (s *Set) check(raw []byte) error {
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	switch {
	case m.Format > Format:
		return fail.New(fail.Refused, "a newer naupegos wrote the backup (form %d, this one reads up to %d)", m.Format, Format).At(s.Where()).Do("use that naupegos")
	case m.Cluster != s.Cluster || m.ClusterID != s.ClusterID:
		return fail.New(fail.Refused, "the backup's content belongs to cluster %s (%s), not to %s (%s)", m.Cluster, m.ClusterID, s.Cluster, s.ClusterID).
			At(s.Where()).Do("use another one: another cluster's was put in its place")
	case m.ID != s.ID:
		return fail.New(fail.Refused, "the backup's content is that of another one, %s", m.ID).At(s.Where()).Do("use another one: it was put in the place of this one")
	}
	about := s.Manifest // as in aboutName, written before etcd's data was known
	about.Etcd, about.Bytes, about.SHA256 = m.Etcd, m.Bytes, m.SHA256
	if field := differs(m, about); field != "" {
		return s.changed(field)
	}
	return nil
}

func (s *Set) changed(field string) error {
	return fail.New(fail.Refused, "%s was changed: its %s differs from the backup's own", manifestFile, field).At(s.Where()).Do("use another one: naupegos backup list %s", s.Cluster)
}

// expect reads the archive's next file into memory; it must have this name.
func expect(t *tar.Reader, name string) ([]byte, error) {
	h, err := t.Next()
	if err != nil {
		return nil, cutOff(err)
	}
	if h.Name != name {
		return nil, errors.New("it has " + h.Name + " where " + name + " belongs")
	}
	return all(t, h)
}

func all(t *tar.Reader, h *tar.Header) ([]byte, error) {
	if h.Size > 4*maxSmall {
		return nil, errors.New(h.Name + " is larger than it can be")
	}
	return io.ReadAll(t)
}

// cutOff turns io.EOF into io.ErrUnexpectedEOF: the archive ended too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// openOperator reads the operator's part.
func (s *Set) openOperator(sealed []byte, with []age.Identity, o *Operator) error {
	t, err := s.unseal(bytes.NewReader(sealed), with)
	if err != nil {
		return err
	}
	if o.Document, err = expect(t, documentName); err != nil {
		return err
	}
	raw, err := expect(t, recordName)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &o.Record); err != nil {
		return err
	}
	if o.Record.ID != s.ClusterID || o.Record.Name != s.Cluster {
		return fail.New(fail.Refused, "the record in the backup belongs to cluster %s (%s), not to %s (%s)", o.Record.Name, o.Record.ID, s.Cluster, s.ClusterID).
			At(s.Where()).Do("use another one")
	}
	o.Secrets = map[string][]byte{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(h.Name, secretsPrefix)
		if !ok {
			return errors.New("it has " + h.Name + " where a secret belongs")
		}
		if o.Secrets[name], err = all(t, h); err != nil {
			return err
		}
	}
}

// snapshot joins the pieces of a snapshot, reads the entry that follows them and verifies the snapshot.
func (s *Set) snapshot(t *tar.Reader, file string) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "unpack the backup")
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fail.Wrap(fail.Refused, e, "unpack the backup")
		}
	}()
	out := &counted{w: onDisk{f}, h: sha256.New()}
	for n := 0; ; n++ {
		h, err := t.Next()
		if err != nil {
			return cutOff(err)
		}
		if left := s.Etcd.Bytes - out.n; h.Name != endName && h.Size > left { // before it fills the disk
			return s.damaged(nil, "the snapshot in the backup is larger than the %d bytes that its manifest names", s.Etcd.Bytes)
		}
		if h.Name == endName {
			raw, err := all(t, h)
			if err != nil {
				return err
			}
			return s.sameSnapshot(raw, out, file)
		}
		if h.Name != pieceName(n) {
			return errors.New("it has " + h.Name + " where " + pieceName(n) + " belongs")
		}
		if _, err := io.Copy(out, t); err != nil {
			return err
		}
	}
}

// sameSnapshot compares a snapshot with its description in the archive (raw) and in the manifest, and with etcd's own checksum.
func (s *Set) sameSnapshot(raw []byte, got *counted, file string) error {
	var e Etcd
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	if sum := hex.EncodeToString(got.h.Sum(nil)); got.n != e.Bytes || sum != e.SHA256 {
		return errors.New("its snapshot was replaced")
	}
	if !reflect.DeepEqual(e, s.Etcd) {
		return s.changed("etcd")
	}
	return CheckSnapshot(file)
}

// CheckSnapshot verifies an etcd snapshot against the checksum at its end.
func CheckSnapshot(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the snapshot")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the snapshot")
	}
	if info.Size()%512 != sha256.Size {
		return fail.New(fail.Invalid, "the snapshot of etcd in the backup is cut off: the checksum at its end is missing").Do("take another backup")
	}
	h, sum := sha256.New(), make([]byte, sha256.Size)
	if _, err = io.CopyN(h, f, info.Size()-sha256.Size); err == nil {
		_, err = io.ReadFull(f, sum)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the snapshot")
	}
	if !bytes.Equal(sum, h.Sum(nil)) {
		return fail.New(fail.Invalid, "the snapshot of etcd in the backup is damaged: the checksum at its end does not fit").Do("take another backup")
	}
	return nil
}

// onDisk gives write errors their own kind: a full disk is not a damaged backup.
type onDisk struct{ f *os.File }

// Write implements io.Writer.
func (d onDisk) Write(b []byte) (int, error) {
	n, err := d.f.Write(b)
	if err != nil {
		err = fail.Wrap(fail.Refused, err, "unpack the backup").Do("make room there")
	}
	return n, err
}

// hashed hashes the bytes read through it, and ends with its context.
type hashed struct {
	ctx context.Context
	r   io.Reader
	h   hash.Hash
}

// Read implements io.Reader.
func (r *hashed) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(b)
	_, _ = r.h.Write(b[:n]) // hashes never fail
	return n, err
}
