// Package archive encrypts the files of a store into a backup, and decrypts them.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// Key encrypts or decrypts a backup: recipients and their identities, or a passphrase.
type Key struct {
	Recipients []string // age1…, to encrypt to
	Identities []byte   // content of a file with AGE-SECRET-KEY-1…, to decrypt with
	Passphrase string   // to encrypt or decrypt with
	Work       int      // cost of guessing the passphrase: scrypt's N as a power of two; 0: age's default, about a second
}

// maxFile limits the size of a file in a backup.
const maxFile = 16 << 30

// Check reports why no backup can be encrypted with the key.
func (k Key) Check() error {
	_, err := k.recipients()
	return err
}

// recipients returns what a backup is encrypted to.
func (k Key) recipients() (all []age.Recipient, err error) {
	if k.Passphrase != "" {
		r, err := age.NewScryptRecipient(k.Passphrase)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "use the passphrase")
		}
		if k.Work > 0 {
			r.SetWorkFactor(k.Work)
		}
		return []age.Recipient{r}, nil
	}
	for _, text := range k.Recipients {
		found, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(found) != 1 {
			return nil, fail.New(fail.Invalid, "%q is not a recipient of age", text).Do("it begins with age1; age-keygen -y FILE prints the one of an identity")
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fail.New(fail.Invalid, "the backup has no recipients").Do("name one by --recipient age1…, or give a passphrase")
	}
	return all, nil
}

func (k Key) identities() ([]age.Identity, error) {
	if k.Passphrase != "" {
		id, err := age.NewScryptIdentity(k.Passphrase)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "use the passphrase")
		}
		return []age.Identity{id}, nil
	}
	all, err := age.ParseIdentities(strings.NewReader(string(k.Identities)))
	if err != nil || len(all) == 0 { // the cause may contain a part of the file
		return nil, fail.New(fail.Invalid, "the identity file holds no age identity (AGE-SECRET-KEY-1…)")
	}
	return all, nil
}

// Pack encrypts the files of a backup with these names in dir.
func Pack(w io.Writer, dir string, names []string, k Key) error {
	to, err := k.recipients()
	if err != nil {
		return err
	}
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "encrypt the backup")
	}
	t := tar.NewWriter(sealed)
	for _, name := range names {
		if err := packFile(t, filepath.Join(dir, name)); err != nil {
			return fail.Wrap(fail.Refused, err, "write the backup")
		}
	}
	if err := errors.Join(t.Close(), sealed.Close()); err != nil {
		return fail.Wrap(fail.Refused, err, "write the backup")
	}
	return nil
}

func packFile(t *tar.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = t.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()})
	}
	if err == nil {
		_, err = io.Copy(t, f)
	}
	return err
}

// Unpack decrypts a backup into dir. It must have the files with these names; others, of a later naupegos, are left out.
func Unpack(r io.Reader, dir string, names []string, k Key) error {
	with, err := k.identities()
	if err != nil {
		return err
	}
	open, err := age.Decrypt(r, with...)
	if err != nil {
		return notOpened(err)
	}
	t, found := tar.NewReader(open), 0
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "read the backup").Do("the file is damaged or cut off: use another one")
		}
		i := slices.Index(names, h.Name)
		if i < 0 {
			continue // written by a later naupegos
		}
		name := names[i]
		if err := unpackFile(t, filepath.Join(dir, name)); err != nil {
			return fail.Wrap(fail.Invalid, err, "unpack %s", name).Do("the file is damaged or cut off, or the disk is full")
		}
		found++
	}
	if found != len(names) {
		return fail.New(fail.Invalid, "this is not a backup of a store: it has %d of %d files", found, len(names))
	}
	return nil
}

func unpackFile(r io.Reader, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxFile))
	if err == nil && n == maxFile {
		err = fmt.Errorf("larger than %d bytes", int64(maxFile))
	}
	return errors.Join(err, f.Close())
}

// notOpened returns an error that says why a backup can't be decrypted.
func notOpened(err error) error {
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return fail.New(fail.Unauthorized, "the backup can't be opened with this").
			Do("give the passphrase that it was made with, or --identity with the file of one of its recipients")
	}
	return fail.Wrap(fail.Invalid, err, "open the backup").Do("the file is damaged, or not one that naupegos store backup wrote")
}
