package contexts

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/userdir"
)

// Place parses where naupegos store move moves the store at from: a directory or a database. A single word is as likely a mistyped database as a directory, so a path must look like one.
func Place(text string, from store.Location) (store.Location, error) {
	const places = "write a directory as ./DIRECTORY or /DIRECTORY, a database as postgres://USER@HOST/DATABASE (or postgresql://…)"
	refused := func(what string, args ...any) *fail.Error {
		return fail.New(fail.Invalid, "move the store: "+what, args...)
	}
	scheme, _, hasScheme := strings.Cut(text, "://")
	first, rest, _ := strings.Cut(text, "/")
	switch {
	case engine.IsURL(text):
		if engine.HasPassword(text) {
			return store.Location{}, refused("the address holds a password: every user of this host can read the arguments of a command").
				Do("leave it out, and give it by PGPASSWORD or ~/.pgpass")
		}
		return store.Location{Dir: from.Dir, URL: text}, nil
	case hasScheme && !strings.ContainsAny(scheme, ":@/"): // the rest is not shown: it may contain a password
		return store.Location{}, refused("a store can't be at an address that begins with %s://", scheme).Do(places)
	case hasScheme, text == "", strings.ContainsAny(first, ":@"):
		return store.Location{}, refused("that is neither a directory nor the address of a database").Do(places)
	case strings.HasPrefix(first, "~"): // the shell has not expanded it, as in quotes
		if home, err := os.UserHomeDir(); first == "~" && err == nil {
			return store.Location{Dir: filepath.Join(home, rest)}, nil
		}
		return store.Location{}, refused("the home directory %s is not known here", first).Do("write the whole path")
	case filepath.IsAbs(text), first == ".", first == "..":
		dir, err := filepath.Abs(text)
		return store.Location{Dir: dir}, err
	}
	return store.Location{}, refused("%q may be a directory, or a mistyped database", text).
		Do("write the directory as ./%s, a database as postgres://USER@HOST/DATABASE", text)
}

// UseIt says how to use a store that was moved.
func UseIt(to string) string {
	if engine.IsURL(to) {
		return "Use it from now on: export NAUPEGOS_STORE=" + to
	}
	standard, err := userdir.State()
	if abs, e := filepath.Abs(to); err == nil && e == nil && abs == standard {
		return "Use it from now on: unset NAUPEGOS_STORE"
	}
	return "Use it from now on: --state-dir " + to + ", without NAUPEGOS_STORE"
}
