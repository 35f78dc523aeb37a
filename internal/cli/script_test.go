package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/naupegos/naupegos/internal/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"naupegos": func() {
		os.Exit(Main(context.Background(), &App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}})
}

// TestScript runs the command as a user does. Scripts have a store of their own, which is empty; `exits N naupegos …` wants an
// exit status, `remember FILE` puts a document into the store as if it had been applied, `bundle FILE` makes a bundle whose kubectl is FILE.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("NO_COLOR", "1")
			return besideCommand(e.Getenv("PATH"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "remember": remember, "bundle": putBundle},
	})
}

// besideCommand puts something in the agent's place, for verbs that look for it there; no script gets as far as running it.
func besideCommand(path string) error {
	for _, dir := range filepath.SplitList(path) {
		if _, err := os.Stat(filepath.Join(dir, "naupegos")); err == nil {
			return os.WriteFile(filepath.Join(dir, "naupegos-agent"), []byte("#!/bin/false\n"), 0o755)
		}
	}
	return errors.New("the command is not in " + path)
}

// putBundle puts a bundle into the library whose kubectl is the given file.
func putBundle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bundle FILE")
	}
	_, err := writeBundle(filepath.Join(ts.Getenv("XDG_CACHE_HOME"), "naupegos", "bundles"), ts.ReadFile(args[0]))
	ts.Check(err)
}

// exits runs a command and wants its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s exited with %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// remember stores a document.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: remember FILE")
	}
	ctx := context.Background()
	st, err := store.Open(ctx, filepath.Join(ts.Getenv("XDG_STATE_HOME"), "naupegos"))
	ts.Check(err)
	defer st.Close()
	_, err = st.CreateCluster(ctx, store.Cluster{Name: "demo", Provider: "local", Document: []byte(ts.ReadFile(args[0]))})
	ts.Check(err)
}
