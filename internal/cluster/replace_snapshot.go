package cluster

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

const snapshotID = "etcd/snapshot"

// snapshotStep saves etcd's data on this side, encrypted, before a member is replaced.
func (c *Cluster) snapshotStep() *plan.Step {
	return &plan.Step{
		ID: snapshotID, Action: plan.Create, Subject: "cluster", Title: "take a snapshot of etcd",
		Reason: "a control-plane machine is replaced", Details: []string{"into " + c.backups + ", encrypted for the store's identity"},
		Run: func(ctx context.Context, p plan.Progress) error {
			return c.withEtcd(ctx, func(e *etcd.Client) error {
				file := filepath.Join(c.backups, time.Now().UTC().Format("20060102T150405Z")+".db.age")
				p.Status("writing %s", file)
				return WritePrivate(file, func(w io.Writer) error {
					sealed, err := c.store.Seal(w)
					if err != nil {
						return err
					}
					if _, err := e.Snapshot(ctx, sealed); err != nil {
						return err
					}
					return sealed.Close()
				})
			})
		},
	}
}

// WritePrivate writes a file that only its owner may read, whole or not at all. Its directory is made 0700 if absent.
func WritePrivate(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", dir)
	}
	f, err := os.CreateTemp(dir, ".part-*") // 0600
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error says more
			_ = os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := f.Close(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	return nil
}
