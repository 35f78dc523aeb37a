package discovery

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// kernelPackage is Debian's, which depends on the newest kernel.
const kernelPackage = "linux-image-" + runtime.GOARCH

// rememberFile has which kernel the last image was made of.
const rememberFile = "kernel.json"

// deb is Debian's package of a kernel.
type deb struct {
	rootfs.Package
	file string
}

// kernel returns the package of the kernel: the operator's, that of the last time, or the newest.
func (o *Options) kernel(ctx context.Context) (deb, error) {
	if o.Package != "" {
		sum, err := rootfs.FileDigest(o.Package)
		if err != nil {
			return deb{}, fail.Wrap(fail.Invalid, err, "read the kernel's package")
		}
		return deb{rootfs.Package{SHA256: sum}, o.Package}, nil
	}
	var last deb
	if data, err := os.ReadFile(filepath.Join(o.Cache, rememberFile)); err == nil && json.Unmarshal(data, &last.Package) == nil {
		last.file = o.packageFile(last.SHA256)
	}
	if !o.Newest && whole(last) {
		return last, nil
	}
	o.Progress.Status("looking for Debian's newest kernel")
	tmp, err := os.MkdirTemp(o.Cache, ".making-")
	if err != nil {
		return deb{}, fail.Wrap(fail.Refused, err, "download the kernel")
	}
	defer os.RemoveAll(tmp)
	apt, err := rootfs.OpenApt(tmp)
	if err != nil {
		return deb{}, err
	}
	newest, err := apt.Newest(ctx, kernelPackage)
	if err != nil {
		return deb{}, err
	}
	got := deb{newest, o.packageFile(newest.SHA256)}
	if !whole(got) {
		o.Progress.Status("downloading %s %s", newest.Name, newest.Version)
		file, err := apt.Download(ctx, newest)
		if err != nil {
			return deb{}, err
		}
		if err := os.Rename(file, got.file); err != nil {
			return deb{}, fail.Wrap(fail.Refused, err, "keep the kernel's package")
		}
	}
	return got, o.remember(got, last)
}

func (o *Options) packageFile(sum string) string {
	return filepath.Join(o.Cache, "kernel-"+sum[:min(16, len(sum))]+".deb")
}

// whole reports whether the file is the package.
func whole(d deb) bool {
	if d.file == "" {
		return false
	}
	sum, err := rootfs.FileDigest(d.file)
	return err == nil && sum == d.SHA256
}

// remember writes which package there is, and removes the one before.
func (o *Options) remember(now, before deb) error {
	data, err := json.Marshal(now.Package)
	tmp := filepath.Join(o.Cache, "."+rememberFile)
	if err == nil {
		err = os.WriteFile(tmp, data, 0o644)
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(o.Cache, rememberFile))
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "remember the kernel's package")
	}
	if before.file != "" && before.file != now.file {
		_ = os.Remove(before.file) // it only takes room
	}
	return nil
}
