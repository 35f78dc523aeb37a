package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// parseRecipients parses age recipients; fail.Invalid if one is malformed or none is given.
func parseRecipients(texts []string) (all []age.Recipient, err error) {
	for _, text := range texts {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "%q is not a recipient of age", text).
				Do("it begins with age1; age-keygen -y FILE prints the one of an identity")
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fail.New(fail.Invalid, "the backup has no recipients")
	}
	return all, nil
}

func parseIdentities(text []byte) ([]age.Identity, error) {
	all, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(all) == 0 { // cause withheld: it may quote the file
		return nil, fail.New(fail.Invalid, "the identity file holds no age identity (AGE-SECRET-KEY-1…)")
	}
	return all, nil
}

// noKey reports whether data is encrypted to other recipients only.
func noKey(err error) bool {
	var none *age.NoIdentityMatchError
	return errors.As(err, &none)
}

// keyName returns the file with the identity that opens a cluster's backups, encrypted with a passphrase.
func keyName(cluster string) string { return cluster + "/key.age" }

// WriteKey stores the identity that opens a cluster's backups next to them, encrypted with a passphrase, so that the target alone suffices to
// rebuild the cluster.
func WriteKey(ctx context.Context, t Target, cluster string, identity []byte, passphrase string) error {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "use the passphrase")
	}
	return t.Create(ctx, keyName(cluster), func(w io.Writer) error {
		sealed, err := age.Encrypt(w, to)
		if err == nil {
			_, err = sealed.Write(identity)
		}
		if err == nil {
			err = sealed.Close()
		}
		if err != nil {
			return classify(err, "write the key")
		}
		return nil
	})
}

// HasKey reports whether the identity is stored next to a cluster's backups.
func HasKey(ctx context.Context, t Target, cluster string) (bool, error) {
	r, _, err := t.Open(ctx, keyName(cluster))
	if fail.KindOf(err) == fail.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// ReadKey decrypts the file of WriteKey.
func ReadKey(ctx context.Context, t Target, cluster, passphrase string) ([]byte, error) {
	with, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use the passphrase")
	}
	raw, err := readSmall(ctx, t, keyName(cluster))
	if fail.KindOf(err) == fail.NotFound {
		return nil, fail.New(fail.NotFound, "no key lies beside the backups of cluster %s", cluster).At(t.String()).
			Do("name the file of an identity that opens them: identity.age of the store's directory, or that of one of spec.backup.recipients")
	}
	if err != nil {
		return nil, err
	}
	damaged := func(err error) error {
		return fail.Wrap(fail.Invalid, err, "open the key beside the backups").At(keyName(cluster)).Do("the file is damaged: naupegos backup key writes it again")
	}
	r, err := age.Decrypt(bytes.NewReader(raw), with)
	if noKey(err) || err != nil && strings.Contains(err.Error(), "incorrect passphrase") {
		return nil, fail.New(fail.Unauthorized, "the key beside the backups of cluster %s does not open with this passphrase", cluster).
			Do("give the one that naupegos backup key was given")
	}
	if err != nil {
		return nil, damaged(err)
	}
	identity, err := io.ReadAll(r)
	if err != nil {
		return nil, damaged(err)
	}
	return identity, nil
}
