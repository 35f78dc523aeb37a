package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
)

// directories are there before anything is mounted.
var directories = []string{"dev", "etc", "mnt", "proc", "root", "run", "sbin", "sys", "tmp"}

// writeInitrd writes the initramfs, and returns its size and SHA-256.
func writeInitrd(file string, k *kernel, agent string, programs map[string][]byte) (size int64, sum string, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	// One thread: where blocks end follows from nothing but the content.
	z, err := zstd.NewWriter(io.MultiWriter(f, h), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return 0, "", errors.Join(err, f.Close())
	}
	a := &archive{w: cpio.NewWriter(z), made: map[string]bool{".": true}}
	err = a.fill(k, agent, programs)
	err = errors.Join(err, a.w.Close(), z.Close(), f.Sync())
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err != nil {
		return 0, "", err
	}
	return info.Size(), hex.EncodeToString(h.Sum(nil)), nil
}

// archive is an archive that the kernel unpacks. All files belong to root and have the same time.
type archive struct {
	w     *cpio.Writer
	inode int64
	made  map[string]bool // directories
}

func (a *archive) fill(k *kernel, agent string, programs map[string][]byte) error {
	for _, d := range directories {
		if err := a.directory(d); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	if err := a.add("init", cpio.TypeReg|0o755, program); err != nil {
		return err
	}
	// The kernel asks for modules by it: file systems, checksums of file systems.
	if err := a.add("sbin/modprobe", cpio.TypeSymlink|0o777, []byte("/init")); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(programs)) {
		if err := a.file(strings.TrimPrefix(file, "/"), 0o755, programs[file]); err != nil {
			return err
		}
	}
	return a.modules(k)
}

func (a *archive) modules(k *kernel) error {
	top := path.Join("lib/modules", k.release)
	deps, aliases := k.lists()
	for _, file := range slices.Sorted(maps.Keys(k.content)) {
		if err := a.file(path.Join(top, file), 0o644, k.content[file]); err != nil {
			return err
		}
	}
	if err := a.file(path.Join(top, "modules.dep"), 0o644, deps); err != nil {
		return err
	}
	return a.file(path.Join(top, "modules.alias"), 0o644, aliases)
}

// file adds a regular file, and its directories before it.
func (a *archive) file(name string, mode cpio.FileMode, content []byte) error {
	if err := a.directory(path.Dir(name)); err != nil {
		return err
	}
	return a.add(name, cpio.TypeReg|mode, content)
}

// directory adds a directory, and its parents before it, unless it was added already.
func (a *archive) directory(name string) error {
	if a.made[name] {
		return nil
	}
	if err := a.directory(path.Dir(name)); err != nil {
		return err
	}
	a.made[name] = true
	return a.add(name, cpio.TypeDir|0o755, nil)
}

func (a *archive) add(name string, mode cpio.FileMode, content []byte) error {
	a.inode++
	h := &cpio.Header{Name: name, Mode: mode, Inode: a.inode, Links: 1, Size: int64(len(content)), ModTime: time.Unix(0, 0)}
	if err := a.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.w.Write(content)
	return err
}
