package cli

import (
	"bytes"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cli/contexts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestWhereAStoreMovesTo: a path must look like one, so that a mistyped database is not taken for a directory; errors show no password.
func TestWhereAStoreMovesTo(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	from := store.Location{Dir: "/state"}
	for text, want := range map[string]store.Location{
		"/srv/store":                   {Dir: "/srv/store"},
		"./demo":                       {Dir: filepath.Join(here, "demo")},
		".":                            {Dir: here},
		"../demo/":                     {Dir: filepath.Join(filepath.Dir(here), "demo")},
		"./a:b@c":                      {Dir: filepath.Join(here, "a:b@c")},
		"~/demo":                       {Dir: filepath.Join(home, "demo")},
		"postgres://ann@h/db":          {Dir: "/state", URL: "postgres://ann@h/db"},
		"postgresql://h/db?sslmode=no": {Dir: "/state", URL: "postgresql://h/db?sslmode=no"},
	} {
		if at, err := contexts.Place(text, from); err != nil || at != want {
			t.Errorf("%s is %+v, %v, and not %+v", text, at, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                "postgres://",
		"demo":                            "./demo",
		"postgres":                        "./postgres",
		"sub/demo":                        "./sub/demo",
		".demo":                           "./.demo",
		"~ann/demo":                       "whole path",
		"postgre://ann:geheim@h/db":       "postgre://",
		"mysql://h/db":                    "postgresql://",
		"Postgres://h/db":                 "postgresql://",
		"ann:geheim@postgres://h/db":      "postgres://",
		"postgres:/ann:geheim@h/db":       "postgres://",
		"ann:geheim@h/db":                 "postgres://",
		"postgres://ann:geheim@h/db":      "PGPASSWORD",
		"postgres://h/db?password=geheim": "PGPASSWORD",
	} {
		_, err := contexts.Place(text, from)
		if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, which should name %s", text, err, want)
		}
	}
}

// TestMovedWithoutAnEntry: a store whose audit does not take the outcome has moved all the same, and the command says where to, besides its error.
func TestMovedWithoutAnEntry(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		testkit.Must(t, testkit.Value(store.Open(t.Context(), store.Location{Dir: dir}))(t).Close())
	}
	files := testkit.Value(filepath.Glob(filepath.Join(to, "*.db")))(t)
	db := testkit.Value(sql.Open("sqlite", files[0]))(t)
	_, err := db.ExecContext(t.Context(), "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.action LIKE 'store move %' AND NEW.outcome = 'done' BEGIN SELECT RAISE(ABORT, 'no room'); END")
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	var out bytes.Buffer
	c := New(&App{In: strings.NewReader(""), Out: &out, Err: io.Discard, StateDir: from})
	c.SetArgs([]string{"store", "move", to})
	err = c.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	if got := out.String(); !strings.Contains(got, "Moved to "+to) || !strings.Contains(got, "--state-dir "+to) {
		t.Errorf("it says %q", got)
	}
}
