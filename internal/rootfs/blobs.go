package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// PlaceBlobs puts blobs of the bundle into machine.BlobDir below root, executable by everyone, owned by root. It links a blob if root owns it on
// the same file system, and otherwise copies it. It verifies that the content matches the bundle's manifest, because the library may belong to
// another user.
func PlaceBlobs(b *bundle.Bundle, blobs []bundle.Artifact, root string) error {
	dir := filepath.Join(root, machine.BlobDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, a := range blobs {
		if err := placeBlob(b, a, filepath.Join(dir, Hex(a.Digest))); err != nil {
			return err
		}
	}
	return nil
}

func placeBlob(b *bundle.Bundle, a bundle.Artifact, dst string) error {
	return place(b.Path(a.Digest), fmt.Sprintf("%s of bundle %s", a.Name, b.ID), Hex(a.Digest), dst)
}

// place puts a file at dst, owned by root, unless there is one already, and then reads it: fail.Refused where its SHA-256 is not want; dst
// is removed then.
func place(src, what, want, dst string) error {
	refused := func(err error, verb string) error {
		return fail.Wrap(fail.Refused, err, "%s %s", verb, what).At(src).Do("run: naupegos bundle verify")
	}
	var st unix.Stat_t
	if err := unix.Stat(src, &st); err != nil {
		return refused(err, "read")
	}
	if err := SameFile(src, dst, st.Uid == 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := errors.Join(os.Chown(dst, 0, 0), os.Chmod(dst, 0o755)); err != nil {
		return err
	}
	sum, err := FileDigest(dst)
	if err == nil && sum != want {
		err = refused(fmt.Errorf("its SHA-256 is %s, and %s is wanted", sum, want), "use")
	}
	if err != nil {
		return errors.Join(err, os.Remove(dst))
	}
	return nil
}

// Artifacts lists all artifacts of a bundle for machines: programs and image archives.
func Artifacts(m bundle.Manifest) []bundle.Artifact {
	out := slices.Clone(m.Binaries)
	for _, i := range m.Images {
		out = append(out, i.Archive)
	}
	return out
}

// Hex returns a digest without its algorithm.
func Hex(d string) string {
	if len(d) > 7 && d[:7] == "sha256:" {
		return d[7:]
	}
	return d
}

// PlaceAgent puts the agent with the digest sum into machine.AgentDir below root.
func PlaceAgent(binary, sum, root string) error {
	target := filepath.Join(root, machine.AgentDir, sum)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	file := filepath.Join(target, "naupegos-agent")
	if err := CopyFile(binary, file); err != nil {
		return err
	}
	if got, err := FileDigest(file); err != nil || got != sum {
		return errors.Join(err, fmt.Errorf("%s changed while it was copied", binary))
	}
	return errors.Join(os.Chown(file, 0, 0), os.Chmod(file, 0o755))
}
