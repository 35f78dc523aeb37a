package layout

import (
	"strings"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// Release is a Kubernetes release and the bundle that it is installed from.
type Release struct {
	Version string          // in the form of release.Default
	Bundle  bundle.Manifest // names and places of binaries and images
}

// Servers is the release of API servers, controller managers and schedulers during an upgrade.
type Servers struct {
	Release  Release
	Emulates string // the emulated minor, "1.36"; empty: their own
}

// servers returns the release of the servers on a machine.
func (p Params) servers(n Node) Release {
	if p.Servers.Release.Version != "" {
		return p.Servers.Release
	}
	return p.of(n)
}

// emulation returns the arguments that make a server emulate an older minor. Without them it emulates none.
func (p Params) emulation() []arg {
	if p.Servers.Emulates == "" {
		return nil
	}
	return []arg{{"emulated-version", "kube=" + p.Servers.Emulates}}
}

// of returns the release of a machine, because machines of two releases coexist during an upgrade.
func (p Params) of(n Node) Release {
	if n.Release.Version != "" {
		return n.Release
	}
	return p.Release
}

// wants returns the requirements of the release's minor.
func (r Release) wants() (release.Minor, error) {
	m, ok := release.Of(r.Version)
	if !ok {
		return m, fail.New(fail.Internal, "Kubernetes %q is not of a supported minor (%s)", r.Version, strings.Join(release.Minors(), ", "))
	}
	return m, nil
}

// image returns an image of the bundle by name.
func (r Release) image(name string) (bundle.Image, error) {
	for _, i := range r.Bundle.Images {
		if i.Name == name {
			return i, nil
		}
	}
	return bundle.Image{}, fail.New(fail.NotFound, "the bundle of Kubernetes %s has no image %q", r.Bundle.Kubernetes, name).
		Do("build or pull the bundle again")
}

// tag returns the tag of an image of the bundle.
func (r Release) tag(name string) (string, error) {
	i, err := r.image(name)
	if err != nil {
		return "", err
	}
	colon := strings.LastIndexByte(i.Ref, ':')
	if colon < strings.LastIndexByte(i.Ref, '/') {
		return "", fail.New(fail.Internal, "the image reference %q has no tag", i.Ref)
	}
	return i.Ref[colon+1:], nil
}

// binary returns an executable of the bundle by name.
func (r Release) binary(name string) (bundle.Artifact, error) {
	for _, b := range r.Bundle.Binaries {
		if b.Name == name {
			return b, nil
		}
	}
	return bundle.Artifact{}, fail.New(fail.NotFound, "the bundle of Kubernetes %s has no executable %q", r.Bundle.Kubernetes, name).
		Do("build or pull the bundle again")
}
