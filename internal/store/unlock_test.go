package store

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
	"github.com/naupegos/naupegos/internal/testkit"
)

// counting returns a passphrase function and its call counter.
func counting(words string) (*Unlock, *int) {
	n := new(int)
	return &Unlock{Work: 10, Passphrase: func() (string, error) { *n++; return words, nil }}, n
}

// keyLine returns the line of an identity's file with the key.
func keyLine(t *testing.T, text []byte) []byte {
	t.Helper()
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("AGE-SECRET-KEY-1")) {
			return bytes.TrimSpace(line)
		}
	}
	t.Fatal("the file has no key")
	return nil
}

func TestPassphraseProtectsTheIdentity(t *testing.T) {
	ctx, at := t.Context(), Location{Dir: t.TempDir()}
	populated(t, at)
	path := filepath.Join(at.Dir, identityFile)
	secret := keyLine(t, testkit.Value(os.ReadFile(path))(t))
	testkit.Must(t, Protect(ctx, at, Protection{Passphrase: "words", Work: 10}))
	if raw := testkit.Value(os.ReadFile(path))(t); bytes.Contains(raw, secret) || !bytes.Contains(raw, []byte(rowmac.Marks())) {
		t.Errorf("the file holds %s", raw)
	}
	_, err := Open(ctx, at)
	testkit.Fails(t, err, fail.Unauthorized, "protected by a passphrase", "--identity-passphrase-file")
	wrong, _ := counting("other")
	_, err = Open(ctx, Location{Dir: at.Dir, Unlock: wrong})
	testkit.Fails(t, err, fail.Unauthorized, "naupegos store protect")
	var asked *int
	at.Unlock, asked = counting("words")
	complete(t, at)
	complete(t, at)
	if *asked != 1 {
		t.Errorf("asked for the passphrase %d times", *asked)
	}
	testkit.Value(Rotate(ctx, at))(t) // keeps the protection
	_, err = Open(ctx, Location{Dir: at.Dir})
	testkit.Fails(t, err, fail.Unauthorized, "protected by a passphrase")
	complete(t, at)
	to := Location{Dir: t.TempDir(), Unlock: at.Unlock}
	testkit.Value(Move(ctx, at, to, false))(t)
	_, err = Open(ctx, Location{Dir: to.Dir})
	testkit.Fails(t, err, fail.Unauthorized, "protected by a passphrase")
	moved := testkit.Value(Open(ctx, to))(t)
	testkit.Must(t, moved.AddSession(ctx, Session{ID: "s1", Claims: []byte("{}"), Created: time.Now(), Expires: time.Now().Add(time.Hour)})) // copies leave sessions out
	testkit.Must(t, moved.Close())
	complete(t, to)
	testkit.Must(t, Protect(ctx, to, Protection{}))
	complete(t, Location{Dir: to.Dir})
}

func TestDamagedProtection(t *testing.T) {
	ctx, at := t.Context(), Location{Dir: t.TempDir()}
	populated(t, at)
	testkit.Must(t, Protect(ctx, at, Protection{Passphrase: "words", Work: 10}))
	path := filepath.Join(at.Dir, identityFile)
	raw := testkit.Value(os.ReadFile(path))(t)
	at.Unlock, _ = counting("words")
	other := bytes.Clone(raw)
	if at := len(raw) - 60; other[at] == 'A' {
		other[at] = 'B'
	} else {
		other[at] = 'A'
	}
	for _, bad := range [][]byte{raw[:len(raw)-100], other, []byte("-----BEGIN AGE ENCRYPTED FILE-----")} {
		testkit.Must(t, os.WriteFile(path, bad, 0o600))
		if _, err := Open(ctx, at); fail.KindOf(err) != fail.Unauthorized || strings.Contains(err.Error(), "words") {
			t.Errorf("%v", err)
		}
	}
}

func TestPluginProtectsTheIdentity(t *testing.T) {
	ctx, at := t.Context(), Location{Dir: t.TempDir()}
	populated(t, at)
	id := plugin.EncodeIdentity("naupegostest", []byte(testkit.Value(age.GenerateX25519Identity())(t).String()))
	pin := "1234"
	at.Unlock = &Unlock{Ask: func(prompt string, secret bool) (string, error) {
		if !strings.Contains(prompt, "PIN") || !secret {
			return "", errors.New("asked for " + prompt)
		}
		return pin, nil
	}}
	testkit.Fails(t, Protect(ctx, at, Protection{Plugin: "AGE-PLUGIN-X"}), fail.Invalid, "AGE-PLUGIN-")
	t.Setenv("PATH", t.TempDir())
	if err := Protect(ctx, at, Protection{Plugin: id}); err == nil || !strings.Contains(err.Error(), "age-plugin-naupegostest") {
		t.Errorf("without the plugin: %v", err)
	}
	complete(t, at)
	t.Setenv("PATH", buildPlugin(t))
	testkit.Must(t, Protect(ctx, at, Protection{Plugin: id}))
	complete(t, at)
	complete(t, Location{Dir: at.Dir, Unlock: &Unlock{Ask: at.Unlock.Ask}})
	_, err := Open(ctx, Location{Dir: at.Dir})
	testkit.Fails(t, err, fail.Unauthorized, "age plugin")
	pin = "0000"
	_, err = Open(ctx, Location{Dir: at.Dir, Unlock: &Unlock{Ask: at.Unlock.Ask}})
	testkit.Fails(t, err, fail.Unauthorized, "age plugin")
	pin = "1234"
	testkit.Value(Rotate(ctx, at))(t)
	complete(t, Location{Dir: at.Dir, Unlock: &Unlock{Ask: at.Unlock.Ask}})
	t.Setenv("PATH", t.TempDir())
	_, err = Open(ctx, Location{Dir: at.Dir, Unlock: &Unlock{Ask: at.Unlock.Ask}})
	testkit.Fails(t, err, fail.NotFound, "install age-plugin-naupegostest")
}

// buildPlugin builds the plugin in a directory of its own.
func buildPlugin(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command(testkit.Value(goProgram())(t), "build", "-trimpath", "-o", filepath.Join(bin, "age-plugin-naupegostest"), "./testdata/ageplugin")
	cmd.Env = append(os.Environ(), "PATH="+originalPath)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// originalPath is PATH before tests change it.
var originalPath = os.Getenv("PATH")

func goProgram() (string, error) {
	for _, dir := range filepath.SplitList(originalPath) {
		if path := filepath.Join(dir, "go"); func() bool { _, err := os.Stat(path); return err == nil }() {
			return path, nil
		}
	}
	return "", errors.New("go is not in PATH")
}
