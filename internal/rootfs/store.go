package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/tool"
)

// imageNamespace is the containerd name space that Kubernetes uses.
const imageNamespace = "k8s.io"

// pinned keeps kubelet's garbage collection off an image: a machine may have no registry to fetch it from again.
const pinned = "io.cri-containerd.pinned=pinned"

// ImageStore fills dir as containerd's root with all images of the bundle, unpacked for overlayfs, by running the bundle's
// own containerd on this host for a few seconds, with a state directory in tmp and a mount name space of its own. Root runs and reads
// only copies, or links, that it has compared with the manifest.
func ImageStore(ctx context.Context, b *bundle.Bundle, dir, tmp string, progress plan.Progress) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if len(b.Manifest.Images) == 0 {
		return nil
	}
	containerd, err := b.Binary("containerd")
	if err != nil {
		return err
	}
	ctr, err := b.Binary("ctr")
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp(tmp, ".tmp-") // a socket's path has at most 107 bytes
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	for _, a := range []bundle.Artifact{containerd, ctr} {
		if err := placeBlob(b, a, filepath.Join(state, a.Name)); err != nil {
			return err
		}
	}
	stop, err := startContainerd(ctx, dir, state)
	if err != nil {
		return err
	}
	return errors.Join(importImages(ctx, b, state, progress), stop())
}

func importImages(ctx context.Context, b *bundle.Bundle, state string, progress plan.Progress) error {
	archive := filepath.Join(state, "image")
	for i, image := range b.Manifest.Images {
		progress.Status("unpacking image %d of %d: %s", i+1, len(b.Manifest.Images), image.Name)
		if err := placeBlob(b, image.Archive, archive); err != nil {
			return err
		}
		_, err := tool.Run(ctx, nil, filepath.Join(state, "ctr"), "--address", filepath.Join(state, "c.sock"), "--namespace", imageNamespace,
			"images", "import", "--local", "--snapshotter", "overlayfs", "--label", pinned, archive)
		if err != nil {
			return fail.Wrap(fail.KindOf(err), err, "import image %s", image.Ref)
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	return nil
}

const containerdConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.native", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// startContainerd runs state's containerd with its root in dir, and waits until it answers. stop ends it cleanly.
func startContainerd(ctx context.Context, dir, state string) (stop func() error, err error) {
	config := filepath.Join(state, "config.toml")
	socket := filepath.Join(state, "c.sock")
	text := fmt.Sprintf(containerdConfig, dir, filepath.Join(state, "state"), socket, filepath.Join(state, "t.sock"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(state, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(state, "containerd"), "--config", config)
	cmd.Env = tool.Env()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	exited := make(chan error, 1)
	if err := tool.StartLocked(cmd, exited); err != nil {
		return nil, err
	}
	stop = func() error { return stopProcess(cmd, exited) }
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = tool.Until(wait, 20*time.Millisecond, func() (bool, error) {
		select {
		case err := <-exited:
			exited <- err
			return false, fmt.Errorf("containerd ended: %w", err)
		default:
		}
		_, err := os.Stat(socket)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		text, readErr := os.ReadFile(filepath.Join(state, "log"))
		return nil, errors.Join(fmt.Errorf("start containerd: %w: %s", err, tool.LastLines(string(text), 3)), readErr, stop())
	}
	return stop, nil
}

// stopProcess ends a process with SIGTERM and, if it won't, with SIGKILL.
func stopProcess(cmd *exec.Cmd, exited chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-exited: //nolint:errcheck // it was stopped on purpose, so its status does not matter
		return nil
	case <-time.After(15 * time.Second):
		return errors.Join(errors.New("containerd did not stop within 15 s"), cmd.Process.Kill(), <-exited)
	}
}
