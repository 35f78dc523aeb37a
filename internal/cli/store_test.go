package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cli/contexts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
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
