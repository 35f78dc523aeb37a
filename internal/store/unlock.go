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

// pluginPrefix begins an identity that a plugin of age knows: AGE-PLUGIN-NAME-1….
const pluginPrefix = "AGE-PLUGIN-"

// Protection is what an identity's file is encrypted by. The zero value: nothing, its mode alone protects it.
type Protection struct {
	Passphrase string
	Plugin     string // AGE-PLUGIN-NAME-1…: hardware, PKCS#11 or a KMS, by the program age-plugin-NAME
	Work       int    // scrypt's N as a power of two; 0: what age takes
}

// Unlock opens protected identities, and remembers those that are open. It may be used by several goroutines and stores.
type Unlock struct {
	Passphrase func() (string, error)                           // nil: protected by one, an identity stays shut
	Ask        func(prompt string, secret bool) (string, error) // what a plugin asks, as for a PIN; nil: it can't
	Tell       func(message string)                             // what a plugin says, as to touch a key; nil: nothing is said
	Work       int                                              // as Protection's

	mu   sync.Mutex
	open map[[sha256.Size]byte]unlocked // by the file's content
}

// unlocked is an identity with what its file is protected by.
type unlocked struct {
	id *age.X25519Identity
	by Protection
}

// opened returns the identity in the text of a protected file. The plugin or the passphrase is asked once for each content.
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
			return is, fail.Wrap(fail.Invalid, err, "read which plugin opens the identity").At(path)
		}
	} else {
		if u.Passphrase == nil {
			return is, fail.New(fail.Unauthorized, "the identity is protected by a passphrase").At(path).Do("give it by --identity-passphrase-file, or run the command on a terminal")
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
				err = errors.New("it holds no identity") // the cause may hold a part of it
			}
		}
	}
	if err == nil {
		return is, nil
	}
	var missing *plugin.NotFoundError
	switch {
	case errors.As(err, &missing):
		return is, fail.Wrap(fail.NotFound, err, "open the identity by a plugin of age").At(path).Do("install age-plugin-%s, and put it in PATH", missing.Name)
	case is.by.Plugin != "":
		return is, fail.Wrap(fail.Unauthorized, err, "open the identity by a plugin of age").At(path).Do("check that the hardware or the key service is there")
	}
	return is, fail.Wrap(fail.Unauthorized, err, "open the identity by its passphrase").At(path).Do("give the passphrase that naupegos store protect was given")
}

// ui lends a plugin what this process can ask and say.
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

// protect returns the text of an identity's file.
func (p Protection) protect(id *age.X25519Identity) ([]byte, error) {
	head := "# Opens the secrets in the store, once its own passphrase or plugin opened it. Keep a copy in a safe place.\n# public key: " + id.Recipient().String() + "\n" + authMark + "\n"
	var to age.Recipient
	switch {
	case p.Plugin != "" && p.Passphrase != "":
		return nil, fail.New(fail.Invalid, "a passphrase and a plugin exclude each other")
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

// parseIdentityFile reads the text of an identity's file; id is nil where it is none.
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
	return is, marked, fail.New(fail.Invalid, "this is not an age identity (AGE-SECRET-KEY-1…)").At(path).Do("put the right file back from a backup")
}

// readPrivate reads a file that others can't read.
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

// Plain returns the text of a file of identities without protection. Text that is not protected stays as it is.
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
