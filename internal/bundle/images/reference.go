package images

import (
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/naupegos/naupegos/internal/fail"
)

// Reference is an image's name, written out in full.
type Reference struct {
	Text   string // as written
	Name   string // "docker.io/library/nginx"
	Tag    string // empty: the name has only a digest
	Digest string // "sha256:…"; empty: the image is not pinned
}

// String returns the full name with tag and digest.
func (r Reference) String() string {
	text := r.Name
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// Registry returns the image's registry: "docker.io", "registry.example.org:5000".
func (r Reference) Registry() string {
	host, _, _ := strings.Cut(r.Name, "/")
	return host
}

var repositoryPath = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)

var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseReference parses the name of an image like containerd. Without tag and digest, the tag is latest.
func ParseReference(text string) (Reference, error) {
	bad := func(problem, hint string) (Reference, error) {
		return Reference{}, fail.New(fail.Invalid, "%q is not the name of an image: %s", text, problem).Do("%s", hint)
	}
	const example = "write it as nginx:1.29, registry.example.org:5000/team/app:v1 or NAME@sha256:…"
	base, digest, pinned := strings.Cut(text, "@")
	switch {
	case strings.TrimSpace(text) == "":
		return bad("it is empty", example)
	case strings.Contains(text, "://"):
		return bad("it begins with a scheme", "leave out "+text[:strings.Index(text, "://")+3])
	case pinned && !strings.HasPrefix(digest, "sha256:"):
		return bad("its digest is not a sha256 digest", "pin it as NAME@sha256:…")
	case pinned && !digestText.MatchString(digest):
		return bad("its digest is not sha256: and 64 hexadecimal digits", "copy the whole digest")
	}
	tagged := tagOf(base) != ""
	parsed, err := name.NewTag(base, name.WeakValidation)
	if err != nil || !repositoryPath.MatchString(parsed.RepositoryStr()) {
		if repo := strings.TrimSuffix(base, ":"+tagOf(base)); repo != strings.ToLower(repo) {
			return bad("it has upper-case letters", "the names of images are lower-case: "+strings.ToLower(repo))
		}
		return bad("a character or a part of it is not allowed", example)
	}
	r := Reference{Text: text, Name: parsed.RegistryStr() + "/" + parsed.RepositoryStr(), Digest: digest}
	for _, alias := range []string{"index.docker.io/", "registry-1.docker.io/"} {
		if rest, ok := strings.CutPrefix(r.Name, alias); ok {
			r.Name = "docker.io/" + rest
		}
	}
	if rest, ok := strings.CutPrefix(r.Name, "docker.io/"); ok && !strings.Contains(rest, "/") {
		r.Name = "docker.io/library/" + rest
	}
	if r.Registry() != strings.ToLower(r.Registry()) {
		return bad("it has upper-case letters", "the names of images are lower-case: "+strings.ToLower(base))
	}
	if tagged || !pinned {
		r.Tag = parsed.TagStr()
	}
	return r, nil
}

// tagOf returns the text after the last colon, unless the colon belongs to the registry's port.
func tagOf(base string) string {
	if i := strings.LastIndex(base, ":"); i > strings.LastIndex(base, "/") {
		return base[i+1:]
	}
	return ""
}

// remote returns the reference for the registry library.
func (r Reference) remote() (name.Reference, error) {
	text := r.Name + ":" + r.Tag
	if r.Digest != "" {
		text = r.Name + "@" + r.Digest
	}
	ref, err := name.ParseReference(text, name.WeakValidation)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the name of image %s", r.Text)
	}
	return ref, nil
}
