package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// consoleLimit is how much of a machine's console log Nova serves.
const consoleLimit = 256 << 10

// seen is the state of a console log at its last copy, to detect changes.
type seen struct {
	size int64
	at   time.Time
}

// followConsoles copies the machines' console logs to the directory of the bed's Nova, twice a second.
func (r *Runner) followConsoles(ctx context.Context) {
	was := map[string]seen{}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text := ""
		if err := r.copyConsoles(was); err != nil {
			text = err.Error()
		}
		if text != last && text != "" {
			r.log.Error("copy consoles", "error", text)
		}
		last = text
	}
}

// copyConsoles copies the console logs that have changed.
func (r *Runner) copyConsoles(was map[string]seen) error {
	r.mu.Lock()
	names := make(map[string]console, len(r.consoles))
	for id, c := range r.consoles {
		names[id] = c
	}
	r.mu.Unlock()
	var errs []error
	for id, c := range names {
		info, err := os.Stat(c.provider.ConsoleFile(c.machine))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now := seen{size: info.Size(), at: info.ModTime()}
		if now == was[id] {
			continue
		}
		if err := c.copy(filepath.Join(r.opts.Consoles, id+".log")); err != nil {
			errs = append(errs, fmt.Errorf("copy the console of %s: %w", c.machine, err))
			continue
		}
		was[id] = now
	}
	return errors.Join(errs...)
}

// console is the location of a machine's console log.
type console struct {
	provider *local.Provider
	machine  string
}

// copy writes the console as a world-readable text file: a console contains no secrets.
func (c console) copy(to string) error {
	data, err := c.provider.Console(c.machine, consoleLimit)
	if err != nil {
		return err
	}
	return replaceFile(to, data, 0o644)
}

// pruneConsoles removes logs that have not changed for the given time. Logs outlive their machines, as evidence.
func pruneConsoles(dir string, age time.Duration) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || time.Since(info.ModTime()) < age {
			continue // removed in the meantime, or recent
		}
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}
