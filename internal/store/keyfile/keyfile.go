// Package keyfile reads and writes the file of a store's identity, which a passphrase or an age plugin may protect.
//
// Lines that begin with # are comments; the store keeps marks there. The package knows neither the database nor the marks' meaning.
package keyfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// pluginPrefix is the prefix of an age plugin's identity: AGE-PLUGIN-NAME-1….
const pluginPrefix = "AGE-PLUGIN-"

// Protection is the encryption of an identity's file. The zero value is none: only the file's mode protects it.
type Protection struct {
	Passphrase string
	Plugin     string // AGE-PLUGIN-NAME-1…, for the program age-plugin-NAME: hardware, PKCS#11 or a KMS
	Work       int    // log2 of scrypt's N; 0: age's default
}

// Unlock opens protected identities, and caches opened ones. It may be used by several goroutines and stores.
type Unlock struct {
	Passphrase func() (string, error)                           // nil: identities with a passphrase can't be opened
	Ask        func(prompt string, secret bool) (string, error) // answers a plugin's question, such as for a PIN; optional
	Tell       func(message string)                             // shows a plugin's message, such as to touch a key; optional
	Work       int                                              // as in Protection

	mu   sync.Mutex
	open map[[sha256.Size]byte]Identity // by the file's content
}

// Identity is an identity and the protection of its file.
type Identity struct {
	ID *age.X25519Identity
	By Protection
}

// Opened decrypts the text of a protected file. It asks for the passphrase, or runs the plugin, once per content.
func (u *Unlock) Opened(path string, text []byte) (Identity, error) {
	if u == nil {
		u = &Unlock{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := sha256.Sum256(text)
	if is, ok := u.open[sum]; ok {
		return is, nil
	}
	is, err := u.decrypt(path, text)
	if err != nil {
		return is, err
	}
	if u.open == nil {
		u.open = map[[sha256.Size]byte]Identity{}
	}
	u.open[sum] = is
	return is, nil
}

func (u *Unlock) decrypt(path string, text []byte) (is Identity, err error) {
	is.By.Work = u.Work
	with := age.Identity(nil)
	if is.By.Plugin = pluginLine(text); is.By.Plugin != "" {
		if with, err = plugin.NewIdentity(is.By.Plugin, u.ui()); err != nil {
			return is, fail.Wrap(fail.Invalid, err, "read the name of the identity's plugin").At(path)
		}
	} else {
		if u.Passphrase == nil {
			return is, fail.New(fail.Unauthorized, "the identity is protected by a passphrase").At(path).Do("pass the passphrase with --identity-passphrase-file, or run the command on a terminal")
		}
		if is.By.Passphrase, err = u.Passphrase(); err != nil {
			return is, err
		}
		if with, err = age.NewScryptIdentity(is.By.Passphrase); err != nil {
			return is, fail.Wrap(fail.Invalid, err, "use the passphrase of the identity").At(path)
		}
	}
	plain, err := age.Decrypt(armor.NewReader(bytes.NewReader(text[bytes.Index(text, []byte(armor.Header)):])), with)
	if err == nil {
		var raw []byte
		if raw, err = io.ReadAll(io.LimitReader(plain, 1<<12)); err == nil {
			if is.ID, err = age.ParseX25519Identity(strings.TrimSpace(string(raw))); err != nil {
				err = errors.New("it contains no identity") // the cause might quote it
			}
		}
	}
	if err == nil {
		return is, nil
	}
	var missing *plugin.NotFoundError
	switch {
	case errors.As(err, &missing):
		return is, fail.Wrap(fail.NotFound, err, "open the identity with an age plugin").At(path).Do("install age-plugin-%s, and put it in PATH", missing.Name)
	case is.By.Plugin != "":
		return is, fail.Wrap(fail.Unauthorized, err, "open the identity with an age plugin").At(path).Do("check that the hardware or the key service is available")
	}
	return is, fail.Wrap(fail.Unauthorized, err, "open the identity with the passphrase").At(path).Do("use the passphrase that was set with naupegos store protect")
}

// ui connects a plugin to this process' user interface.
func (u *Unlock) ui() *plugin.ClientUI {
	ui := &plugin.ClientUI{DisplayMessage: func(name, message string) error {
		if u.Tell != nil {
			u.Tell("age-plugin-" + name + ": " + words.Line(message))
		}
		return nil
	}}
	ui.WaitTimer = func(name string) { _ = ui.DisplayMessage(name, "waiting") }
	if u.Ask != nil {
		ui.RequestValue = func(name, prompt string, secret bool) (string, error) {
			return u.Ask("age-plugin-"+name+": "+words.Line(prompt)+": ", secret)
		}
	}
	return ui
}

// Protected reports whether an identity's file is encrypted.
func Protected(text []byte) bool { return bytes.Contains(text, []byte(armor.Header)) }

func pluginLine(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, pluginPrefix) {
			return line
		}
	}
	return ""
}

// Protect returns the encrypted content of an identity's file.
func (p Protection) Protect(id *age.X25519Identity, marks string) ([]byte, error) {
	head := "# Opens the secrets in the store, after its passphrase or plugin opened it. Keep a copy in a safe place.\n# public key: " + id.Recipient().String() + "\n" + marks
	var to age.Recipient
	switch {
	case p.Plugin != "" && p.Passphrase != "":
		return nil, fail.New(fail.Invalid, "a passphrase and a plugin are mutually exclusive")
	case p.Plugin != "":
		by, err := plugin.NewIdentity(p.Plugin, (&Unlock{}).ui())
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the identity of a plugin").Do("it begins with %s; the plugin prints it", pluginPrefix)
		}
		to, head = by.Recipient(), head+p.Plugin+"\n"
	case p.Passphrase != "":
		by, err := age.NewScryptRecipient(p.Passphrase)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "use the passphrase")
		}
		if p.Work > 0 {
			by.SetWorkFactor(p.Work)
		}
		to = by
	default:
		return Text(id, marks), nil
	}
	var out bytes.Buffer
	out.WriteString(head)
	a := armor.NewWriter(&out)
	w, err := age.Encrypt(a, to)
	if err == nil {
		_, err = io.WriteString(w, id.String()+"\n")
		err = errors.Join(err, w.Close(), a.Close())
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "protect the identity")
	}
	return out.Bytes(), nil
}

// Parse parses an identity's file, and returns its comments, too.
func Parse(path string, text []byte, u *Unlock) (is Identity, marked []string, err error) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			marked = append(marked, line)
		}
		if line == "" || strings.HasPrefix(line, "#") || Protected(text) {
			continue
		}
		if is.ID, err = age.ParseX25519Identity(line); err == nil {
			return is, marked, nil
		}
		break
	}
	if Protected(text) {
		is, err = u.Opened(path, text)
		return is, marked, err
	}
	return is, marked, fail.New(fail.Invalid, "this is not an age identity (AGE-SECRET-KEY-1…)").At(path).Do("restore the file from a backup")
}

// ReadPrivate reads a file, and refuses one that other users can read.
func ReadPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the store's identity").At(path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fail.New(fail.Refused, "the identity can be read by others (mode %04o)", info.Mode().Perm()).At(path).Do("chmod 600 %s", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the store's identity").At(path)
	}
	return raw, nil
}

// Plain decrypts the content of an identity file. It returns unprotected content unchanged.
func (u *Unlock) Plain(path string, text []byte) ([]byte, error) {
	if !Protected(text) {
		return text, nil
	}
	is, err := u.Opened(path, text)
	if err != nil {
		return nil, err
	}
	return Text(is.ID, ""), nil
}

// Text returns the content of an unprotected identity's file.
func Text(id *age.X25519Identity, marks string) []byte {
	return []byte("# Opens the secrets in the store. Keep a copy in a safe place: without it they are lost.\n# public key: " +
		id.Recipient().String() + "\n" + marks + id.String() + "\n")
}

// Rewrite replaces a file of mode 0600 atomically and durably. It follows a link.
func Rewrite(path string, data []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// WriteNew atomically and durably writes a file of mode 0600 that must not exist yet.
func WriteNew(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename, refuses to replace
		return err
	}
	return SyncDir(filepath.Dir(path))
}
