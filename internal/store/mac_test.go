package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/store/rowmac"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNoRowIsBlessedLater: after an attacker removed the store's record of MACs, a host with an unmarked identity file opens the store.
func TestNoRowIsBlessedLater(t *testing.T) {
	const insert = "INSERT INTO tokens (id, name, hash, role, cluster, created_at, expires, revoked) VALUES ('evil', 'eve', 'mine', 'admin', '', 1, 0, 0)"
	for name, do := range map[string][]string{
		"the record removed":            {insert, "DELETE FROM store_facts WHERE name = 'rows-authenticated'"},
		"the record forged":             {insert, "UPDATE store_facts SET value = 'AAAA' WHERE name = 'rows-authenticated'"},
		"a row's MAC removed":           {"UPDATE tokens SET mac = ''", "DELETE FROM store_facts WHERE name = 'rows-authenticated'"},
		"only a row of another table's": {"UPDATE tokens SET mac = ''", "UPDATE server_secrets SET mac = ''", "DELETE FROM store_facts WHERE name = 'rows-authenticated'"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			testkit.Must(t, s.AddToken(t.Context(), Token{ID: "t1", Created: time.Now()}))
			testkit.Must(t, s.ServerSecrets().Put(t.Context(), "x", []byte("x")))
			_, err := s.CreateCluster(t.Context(), Cluster{ID: "c-00000000", Name: "c"})
			testkit.Must(t, err)
			testkit.Must(t, s.Secrets("c-00000000").Put(t.Context(), "a", []byte("a")))
			for _, query := range do {
				_, err := s.db.Exec(query)
				testkit.Must(t, err)
			}
			testkit.Must(t, s.Close())
			path := filepath.Join(dir, identityFile)
			raw := string(testkit.Value(os.ReadFile(path))(t))
			testkit.Must(t, os.WriteFile(path, []byte(strings.Replace(raw, rowmac.Sets()[0].Mark+"\n", "", 1)), 0o600))
			_, err = Open(t.Context(), Location{Dir: dir})
			testkit.Fails(t, err, fail.Refused, "not written with")
		})
	}
}

// TestBackupsCarryMACs: a restored copy of a store verifies, and a forged copy is not restored.
func TestBackupsCarryMACs(t *testing.T) {
	ctx, dir, key := t.Context(), t.TempDir(), archive.Key{Passphrase: "words", Work: 10}
	s := open(t, dir)
	testkit.Must(t, s.AddToken(ctx, Token{ID: "t1", Role: "admin", Created: time.Now()}))
	testkit.Must(t, s.AddToken(ctx, Token{ID: "t2", Role: "admin", Created: time.Now()}))
	copied := func() *os.File {
		f := testkit.Value(os.Create(filepath.Join(t.TempDir(), "copy")))(t)
		t.Cleanup(func() { _ = f.Close() })
		testkit.Value(Backup(ctx, Location{Dir: dir}, f, key))(t)
		_, err := f.Seek(0, 0)
		testkit.Must(t, err)
		return f
	}
	first := copied()
	testkit.Must(t, s.RevokeToken(ctx, "t2"))
	_, err := Restore(ctx, Location{Dir: dir}, first, key, true)
	testkit.Must(t, err)
	if got := testkit.Value(open(t, dir).Tokens(ctx))(t); len(got) != 2 || got[1].Revoked.IsZero() {
		t.Errorf("the tokens are %+v", got)
	}
	_, err = s.db.Exec("UPDATE tokens SET role = 'operate'")
	testkit.Must(t, err)
	_, err = Restore(ctx, Location{Dir: t.TempDir()}, copied(), key, false)
	testkit.Fails(t, err, fail.Refused, "tokens", "t1")
	testkit.Must(t, s.Close())
}
