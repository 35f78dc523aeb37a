package storetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// filled returns a store with two clusters, one, and two, which have the secrets a and b; tokens t1 and t2; sessions s1 and s2; and the server's
// secrets x and y.
func filled(t *testing.T, at Opener) store.Store {
	t.Helper()
	s, ctx := at("writer"), t.Context()
	for _, name := range []string{"one", "two"} {
		_, err := s.CreateCluster(ctx, store.Cluster{ID: name + "-00000000", Name: name})
		testkit.Must(t, err)
		for _, secret := range []string{"a", "b"} {
			testkit.Must(t, s.Secrets(name+"-00000000").Put(ctx, secret, []byte(secret+" of "+name)))
		}
	}
	now := time.Now()
	for _, id := range []string{"t1", "t2"} {
		testkit.Must(t, s.AddToken(ctx, store.Token{ID: id, Name: "ann", Hash: "hash of " + id, Role: "read", Cluster: "one", Created: now, Expires: now.Add(time.Hour)}))
	}
	for _, id := range []string{"s1", "s2"} {
		testkit.Must(t, s.AddSession(ctx, store.Session{ID: id, Hash: "hash of " + id, Subject: "ann", Claims: []byte(`{"groups":["a"]}`), Created: now, Expires: now.Add(time.Hour)}))
	}
	testkit.Must(t, s.ServerSecrets().Put(ctx, "x", []byte("of x")))
	testkit.Must(t, s.ServerSecrets().Put(ctx, "y", []byte("of y")))
	return s
}

// reads returns a read of filled's rows, by table.
func reads(ctx context.Context, s store.Store) map[string]func() error {
	secret := func(cluster, name string) func() error {
		return func() error { _, err := s.Secrets(cluster).Get(ctx, name); return err }
	}
	return map[string]func() error{
		"cluster_keys": secret("one-00000000", "a"), "secrets": secret("one-00000000", "a"),
		"tokens":         func() error { _, err := s.Token(ctx, "t1"); return err },
		"all tokens":     func() error { _, err := s.Tokens(ctx); return err },
		"revoke":         func() error { return s.RevokeToken(ctx, "t1") },
		"sessions":       func() error { _, err := s.Session(ctx, "s1"); return err },
		"all sessions":   func() error { _, err := s.Sessions(ctx); return err },
		"server_secrets": func() error { _, err := s.ServerSecrets().Get(ctx, "x"); return err },
	}
}

// forgedRows: rows that were written without the identity are refused.
func forgedRows(t *testing.T, _ Opener, d Database) {
	row := func(table, key, columns, from, to string) string {
		set := make([]string, 0, 3)
		for column := range strings.SplitSeq(columns, " ") {
			set = append(set, column+" = (SELECT "+column+" FROM "+table+" WHERE "+key+" = '"+from+"')")
		}
		return "UPDATE " + table + " SET " + strings.Join(set, ", ") + " WHERE " + key + " = '" + to + "'"
	}
	set := func(table, column, value, where string) string {
		return "UPDATE " + table + " SET " + column + " = " + value + " WHERE " + where
	}
	const insertToken = "INSERT INTO tokens (id, name, hash, role, cluster, created_at, expires, revoked, mac) "
	for name, c := range map[string]struct {
		do   []string
		read string
		say  []string
	}{
		"another cluster's wrapped key":     {[]string{row("cluster_keys", "cluster_id", "wrapped", "two-00000000", "one-00000000")}, "cluster_keys", []string{"cluster_keys", "one-00000000"}},
		"another cluster's row of keys":     {[]string{row("cluster_keys", "cluster_id", "wrapped mac", "two-00000000", "one-00000000")}, "cluster_keys", []string{"cluster_keys", "one-00000000"}},
		"a wrapped key without MAC":         {[]string{set("cluster_keys", "mac", "''", "cluster_id = 'one-00000000'")}, "cluster_keys", []string{"no MAC"}},
		"another name's secret":             {[]string{"UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'one-00000000' AND name = 'b'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'one-00000000' AND name = 'b') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"secrets", "one-00000000/a"}},
		"another cluster's secret":          {[]string{"UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"secrets", "one-00000000/a"}},
		"another cluster, key and secrets":  {[]string{row("cluster_keys", "cluster_id", "wrapped mac", "two-00000000", "one-00000000"), "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"one-00000000"}},
		"a secret without MAC":              {[]string{set("secrets", "mac", "''", "cluster_id = 'one-00000000' AND name = 'a'")}, "secrets", []string{"no MAC", "one-00000000/a"}},
		"another server secret":             {[]string{row("server_secrets", "name", "sealed mac", "y", "x")}, "server_secrets", []string{"server_secrets", "x"}},
		"a server secret without MAC":       {[]string{set("server_secrets", "mac", "''", "name = 'x'")}, "server_secrets", []string{"no MAC"}},
		"a token's role":                    {[]string{set("tokens", "role", "'admin'", "id = 't1'")}, "tokens", []string{"tokens", "t1"}},
		"a token's cluster":                 {[]string{set("tokens", "cluster", "''", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's hash":                    {[]string{set("tokens", "hash", "'mine'", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's end":                     {[]string{set("tokens", "expires", "0", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's name":                    {[]string{set("tokens", "name", "'bob'", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's revocation":              {[]string{set("tokens", "revoked", "1", "id = 't1'")}, "tokens", []string{"t1"}},
		"another token's row":               {[]string{row("tokens", "id", "hash mac", "t2", "t1")}, "tokens", []string{"t1"}},
		"a token's row under another ID":    {[]string{"DELETE FROM tokens WHERE id = 't1'", insertToken + "SELECT 't1', name, hash, role, cluster, created_at, expires, revoked, mac FROM tokens WHERE id = 't2'"}, "tokens", []string{"t1"}},
		"an inserted token":                 {[]string{"DELETE FROM tokens WHERE id = 't1'", insertToken + "VALUES ('t1', 'eve', 'mine', 'admin', '', 1, 0, 0, '')"}, "tokens", []string{"no MAC", "t1"}},
		"an inserted token in the list":     {[]string{insertToken + "VALUES ('t3', 'eve', 'mine', 'admin', '', 1, 0, 0, '')"}, "all tokens", []string{"no MAC", "t3", "DELETE FROM tokens WHERE id = 't3'"}},
		"an inserted token, revoked":        {[]string{set("tokens", "role", "'admin'", "id = 't1'")}, "revoke", []string{"t1"}},
		"a session's claims":                {[]string{set("sessions", "claims", "'{}'", "id = 's1'")}, "sessions", []string{"sessions", "s1"}},
		"a session's end":                   {[]string{set("sessions", "expires", "expires + 1", "id = 's1'")}, "sessions", []string{"s1"}},
		"another session's row":             {[]string{row("sessions", "id", "hash mac", "s2", "s1")}, "sessions", []string{"s1"}},
		"a session without MAC in the list": {[]string{set("sessions", "mac", "''", "id = 's2'")}, "all sessions", []string{"no MAC", "s2"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := d.New(t)
			s := filled(t, at)
			for what, read := range reads(t.Context(), s) {
				if what == "revoke" {
					continue
				}
				if err := read(); err != nil {
					t.Fatalf("before: %s: %v", what, err)
				}
			}
			for _, do := range c.do {
				d.SQL(t, s, do)
			}
			fresh := at("reader") // without cached keys
			testkit.Fails(t, reads(t.Context(), fresh)[c.read](), fail.Refused, append(c.say, "was not written with this store's identity")...)
		})
	}
}

// unmarkedStore: the first open of an older store adds MACs, and an attacker cannot trigger that again.
func unmarkedStore(t *testing.T, at Opener, d Database) {
	tables := []string{"cluster_keys", "secrets", "tokens", "sessions", "server_secrets"}
	strip := func(t *testing.T, s store.Store) {
		t.Helper()
		for _, table := range tables {
			d.SQL(t, s, "UPDATE "+table+" SET mac = ''")
		}
		d.SQL(t, s, "DELETE FROM store_facts WHERE name = 'rows-authenticated'")
	}
	unmark := func(t *testing.T, s store.Store) {
		t.Helper()
		path := filepath.Join(s.Dir(), "identity.age")
		raw := string(testkit.Value(os.ReadFile(path))(t))
		var rest []string
		for line := range strings.Lines(raw) {
			if !strings.Contains(line, "carry MACs") {
				rest = append(rest, line)
			}
		}
		if len(rest) == 0 || strings.Join(rest, "") == raw {
			t.Fatal("the identity's file has no mark")
		}
		testkit.Must(t, os.WriteFile(path, []byte(strings.Join(rest, "")), 0o600))
	}
	s := filled(t, at)
	strip(t, s)
	unmark(t, s)
	migrated := at("writer")
	for what, read := range reads(t.Context(), migrated) {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	strip(t, s) // as an attacker: the identity's file still has the mark
	migrated = at("writer")
	for what, read := range reads(t.Context(), migrated) {
		if err := read(); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "no MAC") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
