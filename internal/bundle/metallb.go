package bundle

const (
	metalLBModule  = "go.universe.tf/metallb"
	metalLBVersion = "v0.16.1"
)

// The images of AddonMetalLB.
const (
	ImageMetalLBController = "metallb-controller"
	ImageMetalLBSpeaker    = "metallb-speaker"
)

func metalLB() component {
	return component{name: AddonMetalLB, version: metalLBVersion, module: metalLBModule, ldflags: strip + " -X " + metalLBModule + "/internal/version.version=" + metalLBVersion[1:],
		targets:     []target{{ImageMetalLBController, metalLBModule + "/controller"}, {ImageMetalLBSpeaker, metalLBModule + "/speaker"}},
		definitions: []string{"config/crd/bases/*.yaml"}}
}

func metalLBImages(_ recipe, p programs, _ *debianParts) ([]imageSpec, error) {
	controller, err := single(p, ImageMetalLBController, metalLBVersion, ImageMetalLBController)
	if err != nil {
		return nil, err
	}
	speaker, err := single(p, ImageMetalLBSpeaker, metalLBVersion, ImageMetalLBSpeaker)
	if err != nil {
		return nil, err
	}
	speaker[0].User = "" // raw sockets: the manifest gives it that capability alone
	return append(controller, speaker...), nil
}
