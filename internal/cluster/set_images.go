package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/bundle/images"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/siteset"
)

// setImages warns of images that machines pull from registries outside, for neither the bundle nor the registry inside has them.
func setImages(c *Cluster) []string {
	rendered, err := c.RenderSets(context.Background(), nil)
	if err != nil || len(rendered) == 0 {
		return nil
	}
	served := servedImages(c)
	var out []string
	for _, s := range siteset.Of(c.Doc) {
		var pulled []string
		for _, m := range imagesOf(rendered[s.Key]) {
			if !served.has(m.Reference) && !slices.Contains(pulled, m.Text) {
				pulled = append(pulled, m.Text)
			}
		}
		if len(pulled) > 0 {
			slices.Sort(pulled)
			missing := ": machines pull images that are not in the bundle: "
			if c.Doc.Spec.Registry != nil {
				missing = ": machines pull images that are neither in the bundle nor in the registry inside: "
			}
			out = append(out, s.Title+missing+list(pulled))
		}
	}
	return out
}

// imagesOf finds the images in all objects and hooks of a set. It skips an object whose images can't be read: applying the object reports the error.
func imagesOf(r chart.Rendered) []images.Mention {
	all := slices.Clone(r.Objects)
	for _, h := range slices.Concat(r.Before, r.After) {
		all = append(all, h.Object)
	}
	var found images.Scanned
	for _, u := range all {
		var one images.Scanned
		if data, err := u.MarshalJSON(); err == nil && one.ScanMade(u.GetKind()+" "+u.GetName(), data) == nil {
			found.Images = append(found.Images, one.Images...)
		}
	}
	return found.Images
}

// served are images that the cluster's machines have, or get from the registry inside.
type served []images.Reference

func servedImages(c *Cluster) (all served) {
	if c.Current == nil {
		return nil
	}
	for _, i := range c.Current.Manifest.Images {
		if r, err := images.ParseReference(i.Ref); err == nil {
			r.Digest = i.ID
			all = append(all, r)
		}
	}
	if c.Doc.Spec.Registry == nil {
		return all
	}
	sets, err := c.ImageSets(context.Background())
	if err != nil {
		return all // the configuration of the machines that serve them fails with it
	}
	for _, s := range sets {
		for _, i := range s.Images {
			all = append(all, images.Reference{Name: i.Name, Tag: i.Tag, Digest: i.Digest})
		}
	}
	return all
}

// has reports whether an image is among them: by its digest, which decides if there is one, or by its tag.
func (s served) has(r images.Reference) bool {
	return slices.ContainsFunc(s, func(o images.Reference) bool {
		return o.Name == r.Name && (r.Digest != "" && o.Digest == r.Digest || r.Digest == "" && o.Tag == r.Tag)
	})
}
