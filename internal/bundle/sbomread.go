package bundle

import (
	"os"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/naupegos/naupegos/internal/fail"
)

// read adds the components and dependencies in another bundle's bill of materials. It does nothing for nil.
func (b *sbom) read(base *Bundle) error {
	if base == nil {
		return nil
	}
	a, err := base.File(SBOMName)
	if err != nil {
		return err
	}
	f, err := os.Open(base.Path(a.Digest))
	if err != nil {
		return ioError(err, "read bill of materials", base.Path(a.Digest))
	}
	defer f.Close() // read only
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return fail.Wrap(fail.Invalid, err, "read bill of materials").At("bundle " + base.ID[:12]).Do("run naupegos bundle verify, then get the bundle again")
	}
	if bom.Components != nil {
		for _, c := range *bom.Components {
			b.components[c.BOMRef] = c
		}
	}
	if bom.Dependencies != nil {
		for _, d := range *bom.Dependencies {
			if d.Dependencies != nil {
				b.needs[d.Ref] = *d.Dependencies
			}
		}
	}
	return nil
}
