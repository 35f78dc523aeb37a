//go:build integration

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
)

// TestMachinesOfAnotherBase boots machines from a root file system that was unpacked elsewhere and contains containerd's root.
func TestMachinesOfAnotherBase(t *testing.T) {
	var debian *Provider
	unpack := func(ctx context.Context, root string, progress plan.Progress) error {
		store := filepath.Join(root, machine.ContainerdRoot)
		return errors.Join(debian.debian().Unpack(ctx, root, progress), os.Mkdir(store, 0o711), os.WriteFile(filepath.Join(root, "etc/own"), []byte("own"), 0o644),
			os.WriteFile(filepath.Join(store, "image"), []byte("image"), 0o600), os.WriteFile(filepath.Join(root, "etc/fstab"), []byte("UUID=0 / ext4 rw 0 1\n"), 0o644))
	}
	r := newRig(t, func(o *Options) {
		var err error
		if debian, err = New(*o); err != nil {
			t.Fatal(err)
		}
		o.Base = &layers.Base{Key: "itest", Title: "a root file system of the test's", Unpack: unpack}
	})
	r.apply(wanted(1))
	if got := r.ssh("w-1", "cat /etc/own /etc/fstab "+machine.ContainerdRoot+"/image; systemctl is-system-running --wait"); got != "ownimagerunning" {
		t.Errorf("the worker has %q", got)
	}
	r.ssh("gw-1", "grep own /etc/own && test ! -e "+machine.ContainerdRoot+"/image") // gateways run no containers
	if _, err := os.Stat(filepath.Join(r.p.n.machine("w-1"), "upper", machine.ContainerdRoot)); err == nil {
		t.Error("containerd's root is on the overlay")
	}
}
