package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// DefaultSet is the set to which images are added, and which clusters with a registry serve, unless another one is named.
const DefaultSet = "site"

// Set is a named list of a site's own images in the library.
type Set struct {
	Schema int        `json:"schema"` // 1
	Name   string     `json:"name"`   // "site"
	Images []SetImage `json:"images"` // sorted by name, tag and digest
}

// SetImage is one image of a set, for one or several platforms.
type SetImage struct {
	Name      string    `json:"name"`          // with the registry, without tag: "docker.io/library/nginx"
	Tag       string    `json:"tag,omitempty"` // the tag of Digest; empty: the image has only a digest
	Digest    string    `json:"digest"`        // of the index, or of the manifest if the image has no index
	Platforms []string  `json:"platforms"`     // platforms whose content is stored here, sorted
	Blobs     []SetBlob `json:"blobs"`         // index, manifests, configurations and layers, sorted by digest
}

// SetBlob is a file of an image.
type SetBlob struct {
	Digest    string `json:"digest"`
	Size      int64  `json:"size"` // bytes
	MediaType string `json:"mediaType"`
}

// Ref returns the image's name with tag and digest.
func (i SetImage) Ref() string {
	if i.Tag == "" {
		return i.Name + "@" + i.Digest
	}
	return i.Name + ":" + i.Tag + "@" + i.Digest
}

// AddedSet is a set in the library.
type AddedSet struct {
	ID string `json:"id"` // hexadecimal SHA-256 of the set's canonical form
	Set
	Size    int64     `json:"size"` // bytes; a file of several images counts once
	Changed time.Time `json:"changed"`
}

func (s *Set) sort() {
	for i := range s.Images {
		slices.Sort(s.Images[i].Platforms)
		slices.SortFunc(s.Images[i].Blobs, func(a, b SetBlob) int { return strings.Compare(a.Digest, b.Digest) })
	}
	slices.SortFunc(s.Images, func(a, b SetImage) int {
		return slices.Compare([]string{a.Name, a.Tag, a.Digest}, []string{b.Name, b.Tag, b.Digest})
	})
}

// Encode returns the canonical form, whose SHA-256 is the set's ID.
func (s *Set) Encode() ([]byte, error) {
	s.sort()
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode set %s", s.Name)
	}
	return append(data, '\n'), nil
}

// ParseSet reads the canonical form.
func ParseSet(data []byte) (Set, error) {
	var s Set
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, err
	}
	return s, s.check()
}

var (
	setName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	imageName = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)+$`)
	tagName   = regexp.MustCompile(`^[\w][\w.-]{0,127}$`)
)

// CheckSetName refuses invalid names of sets.
func CheckSetName(name string) error {
	if setName.MatchString(name) {
		return nil
	}
	return fail.New(fail.Invalid, "%q can't be the name of a set of images", name).Do("use lower-case letters, digits and -, as %s", DefaultSet)
}

// maxSet bounds the bytes that a foreign set can make us write.
const maxSet = 1 << 40

func (s *Set) check() error {
	if s.Schema != schemaVersion {
		return fmt.Errorf("schema %d is not known to this version of naupegos (it knows %d)", s.Schema, schemaVersion)
	}
	if err := CheckSetName(s.Name); err != nil {
		return err
	}
	var total int64
	for _, i := range s.Images {
		switch {
		case !imageName.MatchString(i.Name) || len(i.Name) > 512:
			return fmt.Errorf("%q is not the name of an image", i.Name)
		case i.Tag != "" && !tagName.MatchString(i.Tag):
			return fmt.Errorf("%s: %q is not a tag", i.Name, i.Tag)
		case !validDigest(i.Digest):
			return fmt.Errorf("%s: %q is not a sha256 digest", i.Name, i.Digest)
		case !slices.ContainsFunc(i.Blobs, func(b SetBlob) bool { return b.Digest == i.Digest }):
			return fmt.Errorf("%s: its own manifest is not among its files", i.Name)
		}
		for _, b := range i.Blobs {
			if !validDigest(b.Digest) || b.Size < 0 || len(b.MediaType) > 255 || strings.ContainsFunc(b.MediaType, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return fmt.Errorf("%s: digest %q, size %d or media type %q is not valid", i.Name, b.Digest, b.Size, b.MediaType)
			}
			if total += min(b.Size, maxSet+1); total > maxSet {
				return fmt.Errorf("%s: the set is larger than %d GiB", i.Name, maxSet>>30)
			}
		}
	}
	return nil
}

// Artifacts returns the set's files, each once, sorted by digest.
func (s *Set) Artifacts() []Artifact {
	all := map[string]Artifact{}
	for _, i := range s.Images {
		for _, b := range i.Blobs {
			all[b.Digest] = Artifact{Name: i.Name, Digest: b.Digest, Size: b.Size}
		}
	}
	var out []Artifact
	for _, d := range sortedKeys(all) {
		out = append(out, all[d])
	}
	return out
}

// Put adds an image. It replaces the one with the same name and tag, or, without a tag, with the same name and digest.
func (s *Set) Put(i SetImage) {
	s.Images = slices.DeleteFunc(s.Images, func(o SetImage) bool {
		return o.Name == i.Name && o.Tag == i.Tag && (o.Tag != "" || o.Digest == i.Digest)
	})
	s.Images = append(s.Images, i)
}

func (l *Library) setDir() string             { return filepath.Join(l.root, "sets") }
func (l *Library) setPath(name string) string { return filepath.Join(l.setDir(), name+".json") }

// Sets returns all sets of images, sorted by name.
func (l *Library) Sets(ctx context.Context) ([]AddedSet, error) {
	out := []AddedSet{}
	entries, err := os.ReadDir(l.setDir())
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	} else if err != nil {
		return nil, ioError(err, "list sets of images", l.setDir())
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !setName.MatchString(name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := l.Set(name)
		if fail.KindOf(err) == fail.NotFound {
			continue // another process removed it meanwhile
		} else if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Set returns the set with this name; fail.NotFound if there is none.
func (l *Library) Set(name string) (AddedSet, error) {
	if err := CheckSetName(name); err != nil {
		return AddedSet{}, err
	}
	path := l.setPath(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return AddedSet{}, fail.New(fail.NotFound, "no set of images %q", name).
			Do("naupegos bundle list shows the sets; naupegos bundle add image --set %s REF makes it", name).Confide("  sets are in %s", l.root)
	} else if err != nil {
		return AddedSet{}, ioError(err, "read set of images", path)
	}
	s, err := ParseSet(data)
	if err == nil && s.Name != name {
		err = fmt.Errorf("it is the set %q", s.Name)
	}
	if err != nil {
		return AddedSet{}, fail.Wrap(fail.Invalid, err, "read set of images").At(path).Do("naupegos bundle remove %s, and add its images again", name)
	}
	info, err := os.Stat(path)
	if err != nil {
		return AddedSet{}, ioError(err, "read set of images", path)
	}
	added := AddedSet{ID: idOf(data), Set: s, Changed: info.ModTime()}
	for _, a := range s.Artifacts() {
		added.Size += a.Size
	}
	return added, nil
}

// Set returns the set with this name from the bundle's library; fail.NotFound if there is none.
func (b *Bundle) Set(name string) (AddedSet, error) {
	return (&Library{root: filepath.Dir(filepath.Dir(b.blobs))}).Set(name)
}

// putSet writes a set, which makes its images exist. All its files must be stored already.
func (l *Library) putSet(s Set) (AddedSet, error) {
	data, err := s.Encode()
	if err != nil {
		return AddedSet{}, err
	}
	if err := s.check(); err != nil {
		return AddedSet{}, fail.Wrap(fail.Internal, err, "write set of images").At(s.Name)
	}
	if err := os.MkdirAll(l.setDir(), 0o755); err != nil {
		return AddedSet{}, ioError(err, "write set of images", l.setDir())
	}
	if err := writeFile(l.setPath(s.Name), data, 0o644); err != nil {
		return AddedSet{}, err
	}
	return l.Set(s.Name)
}

// RemoveSet deletes a set, and every file that nothing else uses.
func (l *Library) RemoveSet(ctx context.Context, name string) error {
	if err := CheckSetName(name); err != nil {
		return err
	}
	unlock, err := l.write(ctx, shortWait)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(l.setPath(name)); errors.Is(err, fs.ErrNotExist) {
		return fail.New(fail.NotFound, "no set of images %q", name).Do("see naupegos bundle list").Confide("  sets are in %s", l.root)
	} else if err != nil {
		return ioError(err, "remove set of images", l.setPath(name))
	}
	return l.sweep(ctx)
}

// VerifySet compares every file of a set with its digest, as Verify does.
func (l *Library) VerifySet(ctx context.Context, name string) error {
	s, err := l.Set(name)
	if err != nil {
		return err
	}
	problems, err := l.verifyAll(ctx, s.Artifacts())
	if err != nil || len(problems) == 0 {
		return err
	}
	return fail.Wrap(fail.Invalid, errors.Join(problems...), "%d of %d files differ from the set's list", len(problems), len(s.Artifacts())).
		At("set " + name).Do("add its images again: naupegos bundle add replaces damaged files")
}
