package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// errNoBundle means that the local library has no bundle of the release.
var errNoBundle = errors.New("there is no bundle of this release in the library")

// unpack copies the programs of a release from its bundle into a directory.
func unpack(ctx context.Context, version, dir string) error {
	root, err := bundle.DefaultRoot()
	if err != nil {
		return err
	}
	l, err := bundle.OpenLibrary(root)
	if err != nil {
		return err
	}
	b, err := l.Find(ctx, version)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoBundle, err)
	}
	for _, x := range b.Manifest.Binaries {
		if slices.Contains(flags.Programs(), x.Name) {
			if err := copyBlob(b, x, dir); err != nil {
				return err
			}
		}
	}
	for _, i := range b.Manifest.Images {
		if slices.Contains(flags.Programs(), i.Name) && i.Name != flags.Etcd { // etcd is among the executables
			if err := fromImage(b, i, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyBlob(b *bundle.Bundle, a bundle.Artifact, dir string) error {
	r, err := os.Open(b.Path(a.Digest))
	if err != nil {
		return err
	}
	defer r.Close()
	return write(filepath.Join(dir, a.Name), r)
}

func write(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// fromImage extracts the program for which an image is named from the image's layers.
func fromImage(b *bundle.Bundle, i bundle.Image, dir string) error {
	r, err := os.Open(b.Path(i.Archive.Digest))
	if err != nil {
		return err
	}
	defer r.Close()
	archive := tar.NewReader(r)
	for {
		_, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the image %s: %w", i.Ref, fs.ErrNotExist)
		}
		if err != nil {
			return err
		}
		var first [512]byte
		n, err := io.ReadFull(archive, first[:])
		if err != nil || !bytes.Equal(first[257:262], []byte("ustar")) {
			continue // not a layer
		}
		layer := tar.NewReader(io.MultiReader(bytes.NewReader(first[:n]), archive))
		for {
			f, err := layer.Next()
			if err != nil {
				break // the next layer
			}
			if path.Base(f.Name) == i.Name && f.Typeflag == tar.TypeReg {
				return write(filepath.Join(dir, i.Name), layer)
			}
		}
	}
}
