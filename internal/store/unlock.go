package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"

	"github.com/naupegos/naupegos/internal/fail"
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
	open map[[sha256.Size]byte]unlocked // by the file's content
}

// unlocked is an identity and the protection of its file.
type unlocked struct {
	id *age.X25519Identity
	by Protection
}

// opened decrypts the text of a protected file. It asks for the passphrase, or runs the plugin, once per content.
func (u *Unlock) opened(path string, text []byte) (unlocked, error) {
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
		u.open = map[[sha256.Size]byte]unlocked{}
	}
	u.open[sum] = is
	return is, nil
}

func (u *Unlock) decrypt(path string, text []byte) (is unlocked, err error) {
	is.by.Work = u.Work
	with := age.Identity(nil)
	if is.by.Plugin = pluginLine(text); is.by.Plugin != "" {
		if with, err = plugin.NewIdentity(is.by.Plugin, u.ui()); err != nil {
			return is, fail.Wrap(fail.Invalid, err, "read the name of the identity's plugin").At(path)
		}
	} else {
		if u.Passphrase == nil {
			return is, fail.New(fail.Unauthorized, "the identity is protected by a passphrase").At(path).Do("pass the passphrase with --identity-passphrase-file, or run the command on a terminal")
		}
		if is.by.Passphrase, err = u.Passphrase(); err != nil {
			return is, err
		}
		if with, err = age.NewScryptIdentity(is.by.Passphrase); err != nil {
			return is, fail.Wrap(fail.Invalid, err, "use the passphrase of the identity").At(path)
		}
	}
	plain, err := age.Decrypt(armor.NewReader(bytes.NewReader(text[bytes.Index(text, []byte(armor.Header)):])), with)
	if err == nil {
		var raw []byte
		if raw, err = io.ReadAll(io.LimitReader(plain, 1<<12)); err == nil {
			if is.id, err = age.ParseX25519Identity(strings.TrimSpace(string(raw))); err != nil {
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
	case is.by.Plugin != "":
		return is, fail.Wrap(fail.Unauthorized, err, "open the identity with an age plugin").At(path).Do("check that the hardware or the key service is available")
	}
	return is, fail.Wrap(fail.Unauthorized, err, "open the identity with the passphrase").At(path).Do("use the passphrase that was set with naupegos store protect")
}

// ui connects a plugin to this process' user interface.
func (u *Unlock) ui() *plugin.ClientUI {
	ui := &plugin.ClientUI{DisplayMessage: func(name, message string) error {
		if u.Tell != nil {
			u.Tell("age-plugin-" + name + ": " + printable(message))
		}
		return nil
	}}
	ui.WaitTimer = func(name string) { _ = ui.DisplayMessage(name, "waiting") }
	if u.Ask != nil {
		ui.RequestValue = func(name, prompt string, secret bool) (string, error) {
			return u.Ask("age-plugin-"+name+": "+printable(prompt)+": ", secret)
		}
	}
	return ui
}

// protected reports whether an identity's file is encrypted.
func protected(text []byte) bool { return bytes.Contains(text, []byte(armor.Header)) }

func pluginLine(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, pluginPrefix) {
			return line
		}
	}
	return ""
}

// protect returns the encrypted content of an identity's file.
func (p Protection) protect(id *age.X25519Identity) ([]byte, error) {
	head := "# Opens the secrets in the store, after its passphrase or plugin opened it. Keep a copy in a safe place.\n# public key: " + id.Recipient().String() + "\n" + authMark + "\n"
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
		return identityText(id), nil
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

// parseIdentityFile parses an identity's file.
func parseIdentityFile(path string, text []byte, u *Unlock) (is unlocked, marked bool, err error) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		marked = marked || line == authMark
		if line == "" || strings.HasPrefix(line, "#") || protected(text) {
			continue
		}
		if is.id, err = age.ParseX25519Identity(line); err == nil {
			return is, marked, nil
		}
		break
	}
	if protected(text) {
		is, err = u.opened(path, text)
		return is, marked, err
	}
	return is, marked, fail.New(fail.Invalid, "this is not an age identity (AGE-SECRET-KEY-1…)").At(path).Do("restore the file from a backup")
}

// readPrivate reads a file, and refuses one that other users can read.
func readPrivate(path string) ([]byte, error) {
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
	if !protected(text) {
		return text, nil
	}
	is, err := u.opened(path, text)
	if err != nil {
		return nil, err
	}
	return identityText(is.id), nil
}
