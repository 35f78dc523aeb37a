package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/tool"
)

// identityCredential is the name of systemd's credential (LoadCredential=, LoadCredentialEncrypted=) with the passphrase of identity.age.
const identityCredential = "naupegos-identity-passphrase" //nolint:gosec // a name

// newUnlock returns a key source for a protected identity. The passphrase never comes from the environment, where all child processes and /proc would
// have it; $CREDENTIALS_DIRECTORY only names systemd's directory.
func (a *App) newUnlock() *store.Unlock {
	return &store.Unlock{Passphrase: a.identityWords, Ask: a.askPlugin, Work: a.passphraseWork, Tell: func(message string) {
		_, _ = io.WriteString(a.Err, tool.Printable(message)+"\n")
	}}
}

func (a *App) identityWords() (string, error) {
	file := a.identityPassphrase
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); file == "" && filepath.IsAbs(dir) {
		if _, err := os.Stat(filepath.Join(dir, identityCredential)); err == nil {
			file = filepath.Join(dir, identityCredential)
		}
	}
	if in, ok := a.In.(*os.File); file == "" && (!ok || !terminal.Is(in)) {
		return "", fail.New(fail.Unauthorized, "the store's identity is protected by a passphrase, and standard input is no terminal").
			Do("give --identity-passphrase-file, or systemd's credential %s", identityCredential)
	}
	if file == "" {
		_, _ = io.WriteString(a.Err, "The store's identity is protected.\n")
	}
	return terminal.Passphrase(a.In, a.Err, file, false)
}

// askPlugin answers a question of an age plugin, for example for a PIN.
func (a *App) askPlugin(prompt string, secret bool) (string, error) {
	in, ok := a.In.(*os.File)
	if !ok || !terminal.Is(in) {
		return "", errors.New("standard input is no terminal")
	}
	_, _ = io.WriteString(a.Err, tool.Printable(strings.TrimSpace(prompt))+"\n")
	return terminal.Passphrase(a.In, a.Err, "", false) // not echoed, whether secret or not
}
