package store

import (
	"bytes"
	"io"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// Seal returns a writer that encrypts to w for whoever has a store's identity (age-encryption.org/v1), for what is kept beside the store. Close
// ends what is written; it does not close w.
func Seal(st Store, w io.Writer) (io.WriteCloser, error) {
	to, err := age.ParseX25519Recipient(st.Recipient())
	if err != nil {
		return nil, fail.New(fail.Internal, "the store's identity can't be encrypted to")
	}
	out, err := age.Encrypt(w, to)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "encrypt for the store's identity")
	}
	return out, nil
}

// Unseal returns a reader of what Seal wrote for the identity of a store.
func Unseal(st Store, r io.Reader) (io.Reader, error) {
	with, err := age.ParseIdentities(bytes.NewReader(st.Identity()))
	if err != nil { // the cause may hold a part of it
		return nil, fail.New(fail.Internal, "the store's identity can't be read")
	}
	out, err := age.Decrypt(r, with...)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "decrypt with the store's identity").Do("the file is damaged, or another store's")
	}
	return out, nil
}
