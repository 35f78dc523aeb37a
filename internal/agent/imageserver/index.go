package imageserver

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"
)

// Index lists the images that the server serves.
type Index struct {
	Images []Image `json:"images"`
}

// Image is one name of an image.
type Image struct {
	Name   string `json:"name"` // with the registry: "docker.io/library/nginx"
	Tag    string `json:"tag,omitempty"`
	Digest string `json:"digest"` // of the tag
	// Files are the media types of index, manifests, configurations and layers, by digest. Without files, the manifest is read for them: containerd
	// has imported such an image from an archive.
	Files map[string]string `json:"files,omitempty"`
}

func (x Index) named(name string) []Image {
	var out []Image
	for _, i := range x.Images {
		if i.Name == name {
			out = append(out, i)
		}
	}
	return out
}

// cache keeps the index until its file changes.
type cache struct {
	file string

	mu    sync.Mutex
	at    time.Time
	size  int64
	index Index
}

func (c *cache) get() (Index, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.file)
	if err != nil {
		return Index{}, err
	}
	if info.ModTime().Equal(c.at) && info.Size() == c.size {
		return c.index, nil
	}
	data, err := os.ReadFile(c.file)
	if err != nil {
		return Index{}, err
	}
	var index Index
	if err := json.Unmarshal(data, &index); err != nil {
		return Index{}, err
	}
	c.at, c.size, c.index = info.ModTime(), info.Size(), index
	return index, nil
}

// maxManifest is the number of bytes of a manifest that the server reads.
const maxManifest = 4 << 20

// files returns the media types of an image's files, by digest.
func (s *Server) files(i Image) map[string]string {
	if len(i.Files) > 0 {
		return i.Files
	}
	f, err := s.open(i.Digest)
	if err != nil {
		return nil // containerd has not imported it yet
	}
	defer f.Close() // only read
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
	}
	var m struct {
		MediaType string       `json:"mediaType"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&m); err != nil {
		s.o.Log.Error("read a manifest", "image", i.Name, "digest", i.Digest, "error", err)
		return nil
	}
	if m.MediaType == "" {
		m.MediaType = "application/vnd.oci.image.manifest.v1+json"
	}
	files := map[string]string{i.Digest: m.MediaType}
	for _, d := range append(m.Layers, m.Config) {
		files[d.Digest] = d.MediaType
	}
	return files
}
