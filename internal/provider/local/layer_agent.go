package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
)

// agentLayer holds the agent where machine.AgentDir says, named by its digest.
func (p *Provider) agentLayer() (layer, error) {
	sum, err := p.agentDigest()
	if err != nil {
		return layer{}, fail.Wrap(fail.Refused, err, "read the agent's binary").At(p.opts.AgentBinary).Do("build it: make build")
	}
	build := func(_ context.Context, dir string, _ plan.Progress) error {
		target := filepath.Join(dir, "root", machine.AgentDir, sum)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		file := filepath.Join(target, "naupegos-agent")
		if err := copyFile(p.opts.AgentBinary, file); err != nil {
			return err
		}
		if got, err := fileDigest(file); err != nil || got != sum {
			return errors.Join(err, fmt.Errorf("%s changed while it was copied", p.opts.AgentBinary))
		}
		return errors.Join(os.Chown(file, 0, 0), os.Chmod(file, 0o755))
	}
	return layer{name: "agent-" + sum[:16], title: "agent " + sum[:12], build: build}, nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bundleRecipe changes whenever the bundle's layer is made differently from the same bundle.
const bundleRecipe = "bundle 1"

// bundleLayer holds the bundle's blobs where machine.BlobDir says and, beside the root, containerd's store with all
// images of the bundle imported and unpacked.
func (p *Provider) bundleLayer() layer {
	b := p.opts.Bundle
	build := func(ctx context.Context, dir string, progress plan.Progress) error {
		if err := placeBlobs(b, filepath.Join(dir, "root", machine.BlobDir)); err != nil {
			return err
		}
		return goldenStore(ctx, b, filepath.Join(dir, "containerd"), progress)
	}
	return layer{name: "bundle-" + digest(bundleRecipe, b.ID)[:16], title: "Kubernetes " + b.Manifest.Kubernetes + " and its images", build: build}
}

// placeBlobs puts every blob of the bundle into dir, executable by everyone, owned by root. A blob on the same file system
// that root owns is linked, not copied.
func placeBlobs(b *bundle.Bundle, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, a := range artifacts(b.Manifest) {
		src, dst := b.Path(a.Digest), filepath.Join(dir, digestHex(a.Digest))
		var st unix.Stat_t
		if err := unix.Stat(src, &st); err != nil {
			return fail.Wrap(fail.Refused, err, "read blob %s of bundle %s", a.Name, b.ID).At(src).Do("run: naupegos bundle verify")
		}
		if err := sameFile(src, dst, st.Uid == 0); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := errors.Join(os.Chown(dst, 0, 0), os.Chmod(dst, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

func artifacts(m bundle.Manifest) []bundle.Artifact {
	out := slices.Clone(m.Binaries)
	for _, i := range m.Images {
		out = append(out, i.Archive)
	}
	return out
}

func digestHex(d string) string {
	if len(d) > 7 && d[:7] == "sha256:" {
		return d[7:]
	}
	return d
}
