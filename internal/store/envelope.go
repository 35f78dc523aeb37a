package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"io"

	"filippo.io/age"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/keyfile"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// dataKey returns the key that encrypts a cluster's secrets. It is stored in the database, encrypted to the age identity. create says whether to
// create it if it does not exist; concurrent callers all get the same key.
func (s *database) dataKey(ctx context.Context, cluster string, create bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := s.keys[cluster]; key != nil {
		return key, nil
	}
	row, err := s.wrappedKey(ctx, cluster)
	if errors.Is(err, sql.ErrNoRows) && create {
		if err := s.makeKey(ctx, cluster); err != nil {
			return nil, err
		}
		row, err = s.wrappedKey(ctx, cluster)
	}
	if err != nil {
		return nil, s.wrap(err, "read the key of %s", cluster)
	}
	if err := s.verify(ctx, rowmac.ClusterKeys, row.mac, cluster, row.text); err != nil {
		return nil, err
	}
	key, err := s.unwrapKey(row.text)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "the key of the cluster's secrets is damaged: it does not decrypt").At(cluster).
			Do("put back a backup: naupegos store restore")
	}
	s.keys[cluster] = key
	return key, nil
}

func (s *database) wrappedKey(ctx context.Context, cluster string) (signedText, error) {
	return one(ctx, s, s.reads, scanSigned, "SELECT wrapped, mac FROM cluster_keys WHERE cluster_id = $1", cluster)
}

// signedText is one column of a row, and the row's MAC.
type signedText struct{ text, mac string }

func scanSigned(row scanner) (r signedText, err error) {
	err = row.Scan(&r.text, &r.mac)
	return r, err
}

func (s *database) makeKey(ctx context.Context, cluster string) error {
	key := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	wrapped, err := s.sealTo(key)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encrypt a new key").At(cluster)
	}
	err = s.changeSigned(ctx, twice, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO cluster_keys (cluster_id, wrapped, mac) VALUES ($1, $2, $3) ON CONFLICT (cluster_id) DO NOTHING",
			cluster, wrapped, s.mac(rowmac.ClusterKeys, cluster, wrapped))
		return err
	})
	if s.d.IsForeignKey(err) {
		return s.unknown(ctx, s.reads, cluster)
	}
	return s.wrap(err, "store a new key of %s", cluster)
}

// sealTo encrypts plain to the identity and returns text.
func (s *database) sealTo(plain []byte) (string, error) {
	var buf bytes.Buffer
	w, err := age.Encrypt(&buf, s.identity.Recipient())
	if err == nil {
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), err
}

func (s *database) unwrapKey(wrapped string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(wrapped)
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(raw), s.identity)
	if err != nil {
		return nil, err
	}
	key, err := io.ReadAll(io.LimitReader(r, chacha20poly1305.KeySize+1))
	if err == nil && len(key) != chacha20poly1305.KeySize {
		err = errors.New("wrong length")
	}
	return key, err
}

// Recipient implements Store.
func (s *database) Recipient() string { return s.identity.Recipient().String() }

// Identity implements Store.
func (s *database) Identity() []byte {
	return append(keyfile.Text(s.identity, rowmac.Marks()), s.former...)
}

// seal encrypts value under key with XChaCha20-Poly1305, bound to a place; the result starts with the random nonce.
func seal(key, value, bind []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "set up encryption")
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(value)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return aead.Seal(nonce, nonce, value, bind), nil
}

func unseal(key, sealed, bind []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("too short")
	}
	return aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bind)
}
