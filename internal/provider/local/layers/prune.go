package layers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// Rest is how long a layer is kept after its last use by a new machine: another apply may be about to use it.
const Rest = 24 * time.Hour

// Prune removes layers that no machine uses, that this Stack would not use again, and that no new machine has used for the given
// time. It returns their names. It removes nothing if InUse reports fail.Conflict.
func (s Stack) Prune(ctx context.Context, unused time.Duration) (removed []string, err error) {
	release, err := files.Lock(ctx, filepath.Join(s.Dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer release()
	return s.prune(unused)
}

// prune does the work of Prune; the image lock is held.
func (s Stack) prune(unused time.Duration) (removed []string, err error) {
	used, err := s.used()
	if fail.KindOf(err) == fail.Conflict {
		return nil, nil // wait until that machine is repaired or removed
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(used, e.Name()) || !isLayer(e.Name()) {
			continue
		}
		if info, err := e.Info(); err != nil {
			return removed, err
		} else if time.Since(info.ModTime()) < unused {
			continue
		}
		// rename it first: half a layer must never look complete
		gone := filepath.Join(s.Dir, ".tmp-gone-"+e.Name())
		if err := os.Rename(filepath.Join(s.Dir, e.Name()), gone); err != nil {
			return removed, err
		}
		if err := os.RemoveAll(gone); err != nil {
			return removed, err
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

func isLayer(name string) bool {
	for _, prefix := range []string{"base-", "bundle-", "agent-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// used lists the layers that machines use, and those of this Stack.
func (s Stack) used() ([]string, error) {
	var out []string
	current, err := s.layers()
	if err != nil {
		return nil, err
	}
	for _, l := range current {
		out = append(out, l.Name)
	}
	used, err := s.InUse()
	return append(out, used...), err
}

// Touch marks this Stack's layers as used now, for Prune.
func (s Stack) Touch() error {
	all, err := s.layers()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, l := range all {
		if err := os.Chtimes(s.dir(l.Name), now, now); err != nil {
			return err
		}
	}
	return nil
}
