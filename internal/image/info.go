package image

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Info describes an image. It is stored next to the image's file, with ".json" added to the name.
type Info struct {
	Schema       int       `json:"schema"`       // 1
	File         string    `json:"file"`         // name of the image's file
	Format       string    `json:"format"`       // QCOW2 or Raw
	Size         int64     `json:"size"`         // bytes of the file
	SHA512       string    `json:"sha512"`       // of the file, hexadecimal
	DiskGiB      int       `json:"diskGiB"`      // smallest disk that the image fits onto
	Distribution string    `json:"distribution"` // ID and VERSION_ID of os-release
	Release      string    `json:"release"`      //
	Architecture string    `json:"architecture"` // as Go names it
	Kubernetes   string    `json:"kubernetes"`   // the bundle's title: "v1.37.2+openstack"
	Bundle       string    `json:"bundle"`       // the bundle's ID
	Agent        string    `json:"agent"`        // SHA-256 of the agent
	Version      string    `json:"version"`      // of naupegos
	Made         time.Time `json:"made"`
}

const infoSuffix = ".json"

// write writes the description next to the image.
func (i *Info) write(image string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(image), "."+filepath.Base(image)+infoSuffix)
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, image+infoSuffix)
}

// ReadInfo reads the description of an image that Build made, or returns fail.Invalid if there is no description.
func ReadInfo(image string) (*Info, error) {
	file := image + infoSuffix
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.Invalid, "the image has no description").At(file).
			Do("`naupegos image build` writes it beside the image: keep the two together")
	} else if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the image's description").At(file)
	}
	var i Info
	if err := json.Unmarshal(data, &i); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the image's description").At(file).Do("build the image again: naupegos image build")
	}
	if i.Schema != 1 || i.SHA512 == "" || i.Bundle == "" {
		return nil, fail.New(fail.Invalid, "this is not a description of an image, or one of another version of naupegos").At(file)
	}
	return &i, nil
}

// Checksum returns the size and SHA-512 of a file. It calls told, which may be nil, with the number of bytes read so far.
func Checksum(ctx context.Context, file string, told func(int64)) (int64, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, "", fail.Wrap(fail.Invalid, err, "read the image")
	}
	defer f.Close() // read only
	h := sha512.New()
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", fail.Wrap(fail.Interrupted, err, "read the image").At(file)
		}
		m, err := io.CopyN(h, f, 8<<20)
		n += m
		if told != nil {
			told(n)
		}
		if errors.Is(err, io.EOF) {
			return n, hex.EncodeToString(h.Sum(nil)), nil
		} else if err != nil {
			return 0, "", fail.Wrap(fail.Refused, err, "read the image").At(file)
		}
	}
}
