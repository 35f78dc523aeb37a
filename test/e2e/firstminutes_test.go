//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestFirstMinutes runs a new user's first commands and compares their output: testdata/firstminutes/first.txtar. The command, the machines and
// the cluster are real; the bundle is this host's.
func TestFirstMinutes(t *testing.T) {
	r := newRig(t, "first")
	r.state = filepath.Join(r.dir, "naupegos") // as with the user's XDG_STATE_HOME
	caches, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ran := t.Run("script", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir:                 filepath.Join("testdata", "firstminutes"),
			RequireExplicitExec: true,
			Setup: func(e *testscript.Env) error {
				e.Setenv("PATH", filepath.Dir(built.bin)+string(filepath.ListSeparator)+e.Getenv("PATH"))
				e.Setenv("HOME", e.WorkDir)
				e.Setenv("TERM", "dumb")
				e.Setenv("XDG_STATE_HOME", r.dir)
				e.Setenv("XDG_CACHE_HOME", caches)
				e.Setenv("STATE", r.state)
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"remembered": func(ts *testscript.TestScript, none bool, _ []string) {
				if (r.record() == nil) != none {
					ts.Fatalf("the store has this of the cluster: %+v", r.record())
				}
			}},
		})
	})
	if ran {
		r.gone()
	}
}
