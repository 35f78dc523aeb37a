package store

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/filelock"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBusyIsTold: the user of a terminal learns that a command waits for another process's write. The other one ends only after that was said.
func TestBusyIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), DatabaseFile)
	other := testkit.Value(engine.OpenSQLite(path, "FULL"))(t)
	defer other.Close()
	here := testkit.Value(engine.OpenSQLite(path, "FULL"))(t)
	defer here.Close()
	writing := testkit.Value(other.BeginTx(t.Context(), nil))(t)
	terminal, said := io.Pipe()
	defer terminal.Close()
	begun := make(chan error, 1)
	go func() {
		tx, err := filelock.Wait{TTY: said}.Begin(t.Context(), here, nil)
		if err == nil {
			err = tx.Rollback()
		}
		begun <- err
	}()
	line := make([]byte, 128)
	n := testkit.Value(terminal.Read(line))(t)
	if got, want := string(line[:n]), "Waiting for the store: another process writes to it, or it is slow to answer.\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	testkit.Must(t, writing.Rollback())
	testkit.Must(t, <-begun)
	tx := testkit.Value(filelock.Wait{TTY: said}.Begin(t.Context(), here, nil))(t) // says nothing: the pipe has no reader, and would block
	testkit.Must(t, tx.Rollback())
}
