package bundle

import "github.com/naupegos/naupegos/internal/bundle/content"

const (
	localPathModule  = "github.com/rancher/local-path-provisioner"
	localPathVersion = "v0.0.30"
	// localPathImage distinguishes images of the same provisioner version. Raise it after any other intended change to the image.
	localPathImage = "-1"
)

// ImageLocalPath is the image of AddonLocalPath: the provisioner, and the shell with which its helper pods create and remove directories.
const ImageLocalPath = "local-path-provisioner"

func localPath() component {
	return component{name: AddonLocalPath, version: localPathVersion, module: localPathModule,
		ldflags: strip + " -X main.VERSION=" + localPathVersion, targets: []target{{ImageLocalPath, localPathModule}}}
}

func localPathImages(_ recipe, p programs, d *debianParts) ([]imageSpec, error) {
	b := &imageBuilder{programs: p}
	const bin = "/usr/local/bin/"
	files := append(b.at(bin, ImageLocalPath), accounts()...)
	return []imageSpec{{Name: ImageLocalPath, Tag: localPathVersion + localPathImage, Roles: []string{roleControlPlane, roleWorker}, Entry: []string{bin + ImageLocalPath},
		Files: append(files, d.shell...)}}, b.err
}

// takeShell selects a static busybox with the programs that the provisioner's scripts call.
func (p *debianParts) takeShell(tr content.Tree) error {
	const busybox = "/bin/busybox"
	file, err := tr.Find(busybox)
	if err != nil {
		return err
	}
	p.shell = []content.File{{Path: busybox, Source: file, Mode: 0o755}}
	for _, name := range []string{"sh", "mkdir", "rm", "chmod"} {
		p.shell = append(p.shell, content.File{Path: "/bin/" + name, Link: "busybox"})
	}
	return nil
}
