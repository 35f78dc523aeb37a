package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSecretsOpenNowhereElse: sealed values that are moved to another place in the database can't be opened.
func TestSecretsOpenNowhereElse(t *testing.T) {
	s, ctx := open(t, t.TempDir()), t.Context()
	c := newCluster(t, s, "demo")
	x := s.Secrets(c.ID)
	for _, n := range []string{"a", "b"} {
		if err := x.Put(ctx, n, []byte("value of "+n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.db.Exec("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'b') WHERE name = 'a'"); err != nil {
		t.Fatal(err)
	}
	_, err := x.Get(ctx, "a")
	testkit.Fails(t, err, fail.Refused, "not written with", "a")
	if _, err := s.db.Exec("UPDATE secrets SET sealed = 'AAAA' WHERE name = 'a'"); err != nil {
		t.Fatal(err)
	}
	_, err = x.Get(ctx, "a")
	testkit.Fails(t, err, fail.Refused, "not written with")
}

// TestNothingSecretInPlain searches every file except the identity for planted secrets; names of secrets may appear.
func TestNothingSecretInPlain(t *testing.T) {
	dir := t.TempDir()
	s, ctx := open(t, dir), t.Context()
	c := newCluster(t, s, "demo")
	x := s.Secrets(c.ID)
	marker := []byte("PLANTED-SECRET-")
	for i := range 50 {
		if err := x.Put(ctx, fmt.Sprintf("s%d", i), fmt.Appendf(nil, "%s%d", marker, i)); err != nil {
			t.Fatal(err)
		}
	}
	key := s.keys[c.ID]
	identity := []byte(s.identity.String())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, marker) || bytes.Contains(raw, key) {
			t.Errorf("%s holds a secret in plain", f)
		}
		if filepath.Base(f) != identityFile && bytes.Contains(raw, identity) {
			t.Errorf("%s holds the identity", f)
		}
	}
}
