package filelock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTold: one line says who holds the lock, before the error does.
func TestTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock := testkit.Value(Wait{}.Take(t.Context(), path))(t)
	defer unlock()
	var said bytes.Buffer
	_, err := Wait{For: 200 * time.Millisecond, Say: &said}.Take(t.Context(), path)
	me := fmt.Sprintf(`filelock.test (process %d)`, os.Getpid())
	testkit.Fails(t, err, fail.Conflict, path, me, "200ms", "--store-wait")
	if want := "Waiting up to 200ms for " + me + ", which makes or updates the store. --store-wait sets another limit.\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}

// TestAnotherProgram names a program that is not ours.
func TestAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	hold := exec.Command("flock", path, "sh", "-c", "echo held; read end")
	in := testkit.Value(hold.StdinPipe())(t)
	out := testkit.Value(hold.StdoutPipe())(t)
	testkit.Must(t, hold.Start())
	defer func() { testkit.Must(t, in.Close()); _ = hold.Wait() }()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err := Wait{For: time.Millisecond}.Take(t.Context(), path)
	if err == nil || !regexp.MustCompile(`flock \(process \d+\) has been making or updating the store for more than 1ms`).MatchString(err.Error()) {
		t.Error(err)
	}
}

// TestQuiet: nothing is said about a lock that is free, or becomes free at once, and an interrupted wait is no conflict.
func TestQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var said strings.Builder
	w := Wait{For: time.Hour, Say: &said}
	unlock := testkit.Value(w.Take(t.Context(), path))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Take(ctx, path)
	testkit.Fails(t, err, fail.Interrupted, "filelock.test")
	taken := make(chan error)
	go func() {
		again, err := w.Take(t.Context(), path)
		if err == nil {
			again()
		}
		taken <- err
	}()
	unlock()
	testkit.Must(t, <-taken)
	if said.Len() > 0 {
		t.Errorf("said %q", said.String())
	}
}
