package bundle

import (
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/bundle/content"
)

// The images of AddonOpenStack.
const (
	ImageOpenStackCCM  = "openstack-cloud-controller-manager"
	ImageCinderCSI     = "cinder-csi"      // the driver's controller, csi-provisioner, csi-attacher and csi-resizer
	ImageCinderCSINode = "cinder-csi-node" // the driver on nodes, csi-registrar and Debian's tools for file systems
)

// The recipe "openstack" compiles the cloud controller manager, the Cinder CSI driver and the sidecars in one module, so that they
// share their dependencies. The sidecars' versions are the newest whose modules the proxy serves and that build with the release's
// Kubernetes libraries.

const openstackModule = "k8s.io/cloud-provider-openstack"

// openstackImage distinguishes images of the same cloud-provider-openstack. Raise it when anything else in them changes on purpose.
const openstackImage = "-1"

func (r recipe) openstack() component {
	return component{name: "openstack", version: r.OpenStack, module: openstackModule,
		ldflags: strip + " -X " + openstackModule + "/pkg/version.Version=" + r.OpenStack +
			" -X k8s.io/component-base/version.gitVersion=" + r.OpenStack + " -X main.version=" + r.OpenStack,
		// The driver's own main program. A file of ours beside it reads Naupegos' data about the machine.
		derive: &catalogue.Derivation{File: "cmd/cinder-csi-plugin/main.go"},
		targets: []target{
			{ImageOpenStackCCM, openstackModule + "/cmd/openstack-cloud-controller-manager"},
			{"cinder-csi-plugin", "./cmd/cinder-csi-plugin"},
			{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"},
			{"csi-attacher", "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"},
			{"csi-resizer", "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer"},
			{"csi-registrar", "./csi-registrar"},
		}}
}

// sidecars returns the sidecars that are compiled with the driver.
func sidecars() []Component {
	var out []Component
	for _, s := range []struct{ name, module, version string }{
		{"csi-attacher", "github.com/kubernetes-csi/external-attacher/v4", "v4.12.0"},
		{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6", "v6.3.0"},
		{"csi-resizer", "github.com/kubernetes-csi/external-resizer/v2", "v2.2.0"},
	} {
		out = append(out, Component{Name: s.name, Version: s.version, Source: "module " + s.module + "@" + s.version})
	}
	return out
}

// openstackImages returns a release's images for clusters on OpenStack. Programs of the same pod share one image, because every image must be
// imported on every machine.
func (r recipe) openstackImages(p programs, d *debianParts) ([]imageSpec, error) {
	b := &imageBuilder{programs: p}
	const bin = "/usr/local/bin/"
	tag := r.OpenStack + openstackImage
	authorities := content.File{Path: authoritiesPath, Data: d.authorities, Mode: 0o644}
	specs := []imageSpec{
		{Name: ImageOpenStackCCM, Tag: tag, Roles: []string{roleControlPlane}, Entry: []string{bin + ImageOpenStackCCM}, User: nobody,
			Files: b.with(authorities, bin, ImageOpenStackCCM)},
		{Name: ImageCinderCSI, Tag: tag, Roles: []string{roleControlPlane}, Entry: []string{bin + "cinder-csi-plugin"},
			Files: b.with(authorities, bin, "cinder-csi-plugin", "csi-provisioner", "csi-attacher", "csi-resizer")},
		// Without certificates: on nodes the driver does not talk to the cloud.
		{Name: ImageCinderCSINode, Tag: tag, Roles: []string{roleControlPlane, roleWorker}, Entry: []string{bin + "cinder-csi-plugin"},
			Files: append(b.at(bin, "cinder-csi-plugin", "csi-registrar"), d.storage...)},
	}
	for i := range specs {
		specs[i].Files = append(specs[i].Files, accounts()...)
	}
	return specs, b.err
}

// storagePackages returns the packages of the programs that the driver calls on nodes.
func storagePackages() []string {
	return []string{"e2fsprogs", "mount", "udev", "util-linux", "xfsprogs"}
}

// takeStorage selects the programs that the driver and Kubernetes' mount-utils call.
func (p *debianParts) takeStorage(tr content.Tree) error {
	var err error
	p.storage, err = tr.Closure("/usr/bin/mount", "/usr/bin/umount", "/usr/bin/findmnt", "/usr/bin/udevadm", "/usr/sbin/blkid", "/usr/sbin/blockdev",
		"/usr/sbin/fsck", "/usr/sbin/e2fsck", "/usr/sbin/mke2fs", "/usr/sbin/dumpe2fs", "/usr/sbin/resize2fs", "/usr/sbin/tune2fs",
		"/usr/sbin/mkfs.xfs", "/usr/sbin/xfs_repair", "/usr/sbin/xfs_io", "/usr/sbin/xfs_growfs")
	if err != nil {
		return err
	}
	for _, l := range [][2]string{{"mkfs.ext3", "mke2fs"}, {"mkfs.ext4", "mke2fs"}, {"fsck.ext3", "e2fsck"}, {"fsck.ext4", "e2fsck"}} {
		p.storage = append(p.storage, content.File{Path: "/usr/sbin/" + l[0], Link: l[1]})
	}
	conf, err := tr.Find("/etc/mke2fs.conf")
	p.storage = append(p.storage, content.File{Path: "/etc/mke2fs.conf", Source: conf, Mode: 0o644})
	return err
}
