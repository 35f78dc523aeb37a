package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// state is what a runner needs to know after a crash. It is written before an object is created, so every object is recorded. The runner never
// identifies an object by the form of its name.
type state struct {
	mu   sync.Mutex
	file string

	Networks []subnet `json:"networks"` // networks that have, or may have, a local cluster
	HAProxy  process  `json:"haproxy"`
	Table    string   `json:"table"`
	Link     string   `json:"link"`
}

func readState(file string) (*state, error) {
	s := &state{file: file}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read what the last runner made").At(file)
	}
	return s, nil
}

// change modifies the state and saves it.
func (s *state) change(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(s.file, append(data, '\n'), 0o600)
}

// replaceFile writes a file atomically: readers see either the old content or the new.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil { // independent of the umask
		return err
	}
	return os.Rename(tmp, path)
}

// takeLock makes sure that only one runner serves a bed. The kernel releases the lock when the runner dies.
func takeLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fail.Wrap(fail.Conflict, fmt.Errorf("lock: %w", err), "another runner serves this bed").At(path), f.Close())
	}
	return f, nil
}
