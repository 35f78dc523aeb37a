package agent

import (
	"context"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/agent/containerd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

const (
	containerdUnit   = "containerd.service"
	containerdSocket = "/run/containerd/containerd.sock"
	// pinned protects an image from kubelet's garbage collection: a machine may have no registry from which to pull it again.
	pinned = "io.cri-containerd.pinned=pinned"
)

// ctr calls containerd's client in Kubernetes' namespace: the bundle's client if the configuration contains it.
func (a *Agent) ctr(ctx context.Context, c machine.Config, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.unitWait)
	defer cancel()
	program := "ctr"
	for _, b := range c.Binaries {
		if path.Base(b.Path) == "ctr" {
			program = a.path(b.Path)
		}
	}
	return a.run.Run(ctx, nil, append([]string{program, "--address", containerdSocket, "-n", kubernetes}, args...)...)
}

// kubernetes is containerd's namespace of Kubernetes.
const kubernetes = "k8s.io"

// knownImages asks containerd for its images and returns their digests by reference.
func (a *Agent) knownImages(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.unitWait)
	defer cancel()
	return containerd.Images(ctx, a.path(containerdSocket), kubernetes)
}

// inStore reports whether containerd's content store holds an image's manifest.
func (a *Agent) inStore(id string) bool {
	const store = machine.ContainerdRoot + "/io.containerd.content.v1.content/blobs/sha256/"
	_, err := os.Stat(a.path(store + strings.TrimPrefix(id, "sha256:")))
	return err == nil
}

// imagesToImport returns the images with a reference that is unknown or refers to something else.
func imagesToImport(images []machine.Image, known map[string]string) []machine.Image {
	var out []machine.Image
	for _, img := range images {
		if slices.ContainsFunc(img.Refs, func(r string) bool { return known[r] != img.ID }) {
			out = append(out, img)
		}
	}
	return out
}

// waitContainerd waits until containerd accepts connections.
func (a *Agent) waitContainerd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", a.path(containerdSocket))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.NotReady, err, "wait for containerd to take connections").At(containerdSocket).
				Do("`journalctl -u containerd` on the machine tells more")
		case <-poll.C:
		}
	}
}

// importImages imports images into containerd, and reports the imported ones. The archives are removed afterwards, because containerd has its own
// copy.
func (a *Agent) importImages(ctx context.Context, c machine.Config) ([]machine.Change, []string, error) {
	if err := a.waitContainerd(ctx); err != nil {
		return nil, nil, err
	}
	known, err := a.knownImages(ctx)
	if err != nil {
		return nil, nil, err
	}
	todo := imagesToImport(c.Images, known)
	missing, err := a.missingArchives(todo)
	if err != nil || len(missing) > 0 {
		return nil, missing, err
	}
	var changes []machine.Change
	for _, img := range todo {
		if err := a.importImage(ctx, c, img); err != nil {
			return changes, nil, err
		}
		changes = append(changes, imageChange(img))
		if err := a.settleStore(ctx); err != nil {
			return changes, nil, err
		}
	}
	return changes, nil, nil
}

// settleStore waits until unpacked images have reached the disk before containerd unpacks more: see paced.
func (a *Agent) settleStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.unitWait)
	defer cancel()
	if _, err := a.run.Run(ctx, nil, "sync", "--file-system", a.path(machine.ContainerdRoot)); err != nil {
		return fail.Wrap(kindOr(err, fail.Internal), err, "write container images to the disk").At(machine.ContainerdRoot)
	}
	return nil
}

func (a *Agent) missingArchives(images []machine.Image) ([]string, error) {
	var missing []string
	for _, img := range images {
		has, err := a.HasBlob(img.Digest, img.Size)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, img.Digest)
		}
	}
	return missing, nil
}

func imageChange(img machine.Image) machine.Change {
	return machine.Change{Kind: "image", Name: img.Refs[0], Action: "create", Why: "containerd does not hold " + img.ID}
}

func (a *Agent) importImage(ctx context.Context, c machine.Config, img machine.Image) error {
	name := img.Refs[0]
	if _, err := a.ctr(ctx, c, "images", "import", "--label", pinned, a.blobPath(img.Digest)); err != nil {
		return fail.Wrap(kindOr(err, fail.Internal), err, "import image %s", name).At(blobFile(img.Digest))
	}
	known, err := a.knownImages(ctx)
	if err != nil {
		return err
	}
	source := ""
	for ref, id := range known {
		if id == img.ID && (source == "" || ref < source) {
			source = ref
		}
	}
	if source == "" {
		return fail.New(fail.Refused, "image archive %s does not hold image %s", img.Digest, img.ID).At(name).
			Do("the bundle is damaged: `naupegos bundle verify` tells more")
	}
	for _, ref := range img.Refs {
		if known[ref] == img.ID {
			continue
		}
		if _, err := a.ctr(ctx, c, "images", "tag", "--force", source, ref); err != nil {
			return fail.Wrap(kindOr(err, fail.Internal), err, "name image %s", ref)
		}
		if _, err := a.ctr(ctx, c, "images", "label", ref, pinned); err != nil {
			return fail.Wrap(kindOr(err, fail.Internal), err, "pin image %s", ref)
		}
	}
	return removePath(a.blobPath(img.Digest), blobFile(img.Digest))
}
