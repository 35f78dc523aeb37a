package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// tools maps the programs that the package needs to their Debian packages.
var tools = map[string]string{
	"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "sfdisk": "fdisk", "mkfs.vfat": "dosfstools", "mcopy": "mtools", "qemu-img": "qemu-utils",
}

// checkHost reports everything that this host lacks in one error.
func (o *Options) checkHost() error {
	var problems []string
	if os.Geteuid() != 0 {
		problems = append(problems, "root is needed for the owners of files: use sudo")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		problems = append(problems, "images are made on linux/amd64 and for it; this is "+runtime.GOOS+"/"+runtime.GOARCH)
	}
	if absent := o.absentPackages(); len(absent) > 0 {
		problems = append(problems, "programs are missing: apt-get install "+strings.Join(absent, " "))
	}
	if len(problems) > 0 {
		return fail.New(fail.Refused, "this host can't make the image: %s", strings.Join(problems, "; ")).At(o.Output)
	}
	return nil
}

// checkRoom checks the room for the tree, with the bundle's images packed and unpacked, and for a disk with the same content.
func (o *Options) checkRoom() error {
	dir := filepath.Dir(o.Output)
	room, err := free(dir)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "make the image").At(o.Output)
	}
	var bundle int64
	if o.Bundle != nil {
		bundle = o.Bundle.Size()
	}
	if need := 2 * (2*bundle + gib); room < need {
		return fail.New(fail.Refused, "%s has %d MiB free, making an image needs %d meanwhile", dir, room>>20, need>>20).At(o.Output).
			Do("make room, or name a file on another disk")
	}
	return nil
}

func (o *Options) absentPackages() []string {
	var out []string
	for program, name := range tools {
		if program == "qemu-img" && o.Format != QCOW2 {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look for room in %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
