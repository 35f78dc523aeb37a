package serving

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// leastRoom is the free space below which a store in a file counts as unable to take changes.
const leastRoom = 1 << 20 // bytes

// storePing returns the check that the store answers. SQLite answers from memory and writes on to a file that was deleted, and a full disk shows only at a
// change; so a store in a file is well only while its file is the one that was opened, has content, and its disk has room.
func storePing(st store.Store) func(context.Context) error {
	file := filepath.Join(st.Dir(), store.DatabaseFile)
	opened, err := os.Stat(file)
	inFile := err == nil && st.Where() == st.Dir()
	return func(ctx context.Context) error {
		if _, err := st.ServerSecrets().Names(ctx); err != nil || !inFile {
			return err
		}
		now, err := os.Stat(file)
		switch {
		case err != nil:
			return fail.Wrap(fail.Internal, err, "look at the store's file")
		case !os.SameFile(opened, now):
			return fail.New(fail.Internal, "the store's file was replaced while the server runs: restart the server").At(file)
		case now.Size() == 0:
			return fail.New(fail.Internal, "the store's file was emptied: put a copy back with naupegos store restore").At(file)
		}
		var disk syscall.Statfs_t
		if err := syscall.Statfs(file, &disk); err != nil {
			return fail.Wrap(fail.Internal, err, "look at the store's disk")
		}
		if disk.Bavail*uint64(disk.Bsize) < leastRoom {
			return fail.New(fail.Refused, "the store's disk is full: make room").At(file)
		}
		return nil
	}
}
