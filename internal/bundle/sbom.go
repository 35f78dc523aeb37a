package bundle

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"net/url"
	"runtime/debug"
	"sort"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/naupegos/naupegos/internal/fail"
)

// addSBOM stores the bill of materials: every program with its digest and the modules in its build information, every Debian package,
// and, for a bundle that extends another one, the content of the other's bill. It depends only on the bundle's contents (no time, no
// random number).
func (l *Library) addSBOM(ctx context.Context, m Manifest, base *Bundle, progs programs, debs []deb) (Artifact, error) {
	b := &sbom{pulled: m.Origin == originPulled, components: map[string]cdx.Component{}, needs: map[string][]string{}}
	if err := b.read(base); err != nil {
		return Artifact{}, err
	}
	for _, name := range sortedKeys(progs) {
		if isDefinitions(name) { // data of a module that the bill names
			continue
		}
		if err := b.program(progs[name]); err != nil {
			return Artifact{}, err
		}
	}
	for _, d := range debs {
		b.deb(d)
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b.document(m), cdx.SpecVersion1_6); err != nil {
		return Artifact{}, fail.Wrap(fail.Internal, err, "write bill of materials")
	}
	return l.addBlob(ctx, SBOMName, &out, 0o644)
}

// sbom collects components by reference.
type sbom struct {
	pulled     bool // programs may lack build information
	components map[string]cdx.Component
	needs      map[string][]string
}

func (b *sbom) program(p program) error {
	ref := "program:" + p.Name
	c := cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: p.Name, Group: p.from,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hexOf(p.Digest)}}}
	info, err := buildinfo.ReadFile(p.file)
	if err != nil {
		if !b.pulled {
			return fail.Wrap(fail.Internal, err, "read build information of %s", p.Name).At(p.file)
		}
		c.Properties = &[]cdx.Property{{Name: "naupegos:build-information", Value: "none"}}
		b.components[ref] = c
		return nil
	}
	c.Properties = &[]cdx.Property{{Name: "naupegos:go-package", Value: info.Path}}
	b.components[ref] = c
	b.need(ref, b.library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), ""))
	for _, dep := range append([]*debug.Module{&info.Main}, info.Deps...) {
		for dep.Replace != nil {
			dep = dep.Replace
		}
		if dep.Path == "" || strings.HasPrefix(dep.Path, "naupegos.dev/") || strings.HasPrefix(dep.Path, "./") {
			continue // the recipe's own modules
		}
		b.need(ref, b.library(dep.Path, dep.Version, dep.Sum))
	}
	return nil
}

func (b *sbom) library(path, version, sum string) string {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "naupegos:go-sum", Value: sum}}
	}
	b.components[purl] = c
	return purl
}

func (b *sbom) deb(d deb) {
	purl := "pkg:deb/" + d.Distro + "/" + d.Name + "@" + url.QueryEscape(d.Version)
	b.components[purl] = cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: d.Name, Version: d.Version, PackageURL: purl,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: d.SHA256}}}
}

func (b *sbom) need(from, to string) { b.needs[from] = append(b.needs[from], to) }

func (b *sbom) document(m Manifest) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: "bundle", Type: cdx.ComponentTypePlatform, Name: "naupegos-bundle", Version: m.Kubernetes}}
	var components []cdx.Component
	for _, ref := range sortedKeys(b.components) {
		components = append(components, b.components[ref])
	}
	bom.Components = &components
	var dependencies []cdx.Dependency
	for _, ref := range sortedKeys(b.needs) {
		list := b.needs[ref]
		sort.Strings(list)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &list})
	}
	bom.Dependencies = &dependencies
	return bom
}
