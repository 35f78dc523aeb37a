package addon

import (
	"crypto/sha256"
	_ "embed" // for the manifests
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// The addons of a cluster on OpenStack, in the order in which they are installed.
const (
	NameCloudConfig = "openstack-cloud-config"
	NameOpenStack   = "openstack-cloud-controller-manager"
	NameCinderCSI   = "cinder-csi"
)

// The Secret with cloud.conf, and the StorageClass.
const (
	CloudConfigName  = "cloud-config"
	StorageClassName = "cinder"
	CinderDriver     = "cinder.csi.openstack.org"
)

// Further keys of the Secret, for clouds that require client certificates, and the directory in which pods see the Secret.
const (
	configDir     = "/etc/config/"
	clientCertKey = "client.crt"
	clientKeyKey  = "client.key"
)

// AuthoritiesDir is the machines' directory that is mounted into the cloud's controllers at the same path. It contains CloudConf.CAFile.
const AuthoritiesDir = "/etc/naupegos"

var (
	//go:embed manifests/cloud-config.yaml
	cloudConfigManifest string
	//go:embed manifests/openstack-cloud-controller-manager.yaml
	ccmManifest string
	//go:embed manifests/cinder-csi.yaml
	cinderManifest string
)

// OpenStack is the input from which the addons of a cluster on OpenStack are rendered.
type OpenStack struct {
	ClusterID     string          // part of the names, descriptions and metadata of load balancers and volumes, to find them again
	Bundle        bundle.Manifest // a bundle with bundle.AddonOpenStack
	CloudConf     []byte          // CloudConf.Render: a secret
	Authorities   []byte          // content of CloudConf.CAFile
	ClientCert    []byte          // client certificate (PEM) if the cloud requires one; empty: none. See CloudConf.ClientCert
	ClientKey     []byte          // a secret
	ControlPlanes int             // number of control-plane machines to run on
	PodCIDR       string          // "10.244.0.0/16"
	VolumeType    string          // of Cinder; empty: the cloud's default
	// VolumeZone is Cinder's availability zone for all volumes. If it is empty, volumes are created in the zone of the pod's node, which works only
	// if Nova's and Cinder's zones have the same names. Set it together with CloudConf.IgnoreVolumeZone.
	VolumeZone string
	NoVolumes  bool // the cloud offers no volumes
}

// OpenStackAddons lists the addons of a cluster on OpenStack in order of installation, without their manifests: the configuration, the cloud
// controller manager, which nodes wait for, and, if the cloud has volumes, the storage driver.
func OpenStackAddons(noVolumes bool) []Addon {
	all := []Addon{
		{Name: NameCloudConfig, Title: "the cluster's own cloud credential", Secret: true,
			Reason: "the cloud's controllers request load balancers and volumes with it"},
		{Name: NameOpenStack, Title: "the cloud controller manager", Workloads: []Workload{{Kind: "DaemonSet", Name: NameOpenStack}},
			Reason: "it sets nodes' addresses and zones, and creates load balancers for Services"},
		{Name: NameCinderCSI, Title: "the storage driver (Cinder CSI)",
			Workloads: []Workload{{Kind: "Deployment", Name: "csi-cinder-controller"}, {Kind: "DaemonSet", Name: "csi-cinder-node"}},
			Reason:    "it creates volumes in the cloud for PersistentVolumeClaims"},
	}
	if noVolumes {
		return all[:2]
	}
	return all
}

// Catalogue returns OpenStackAddons with their manifests.
func (o OpenStack) Catalogue() ([]Addon, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	all := OpenStackAddons(o.NoVolumes)
	render := map[string]func() ([]byte, error){
		NameCloudConfig: func() ([]byte, error) { return o.cloudConfig() },
		NameOpenStack:   o.CloudControllerManager, NameCinderCSI: o.CinderCSI,
	}
	for i := range all {
		var err error
		if all[i].Manifests, err = render[all[i].Name](); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// check reports problems with o as defects of the caller.
func (o OpenStack) check() error {
	if o.ClusterID == "" || len(o.CloudConf) == 0 || o.ControlPlanes < 1 || o.PodCIDR == "" {
		return fail.New(fail.Internal, "render the addons for OpenStack: cluster ID %q, %d bytes of configuration, %d control-plane machines, pods %q",
			o.ClusterID, len(o.CloudConf), o.ControlPlanes, o.PodCIDR)
	}
	return nil
}

// cloudConfig renders the Secret kube-system/cloud-config with cloud.conf, and with the client certificate if the cloud requires one.
func (o OpenStack) cloudConfig() ([]byte, error) {
	return render(NameCloudConfig, cloudConfigManifest, map[string]string{
		"Conf": base64.StdEncoding.EncodeToString(o.CloudConf),
		"Cert": base64.StdEncoding.EncodeToString(o.ClientCert), "Key": base64.StdEncoding.EncodeToString(o.ClientKey),
	})
}

// CloudControllerManager renders openstack-cloud-controller-manager. It runs on every control-plane machine, in the host's network, and talks to the
// local API server, because it must run before pods have a network and before load balancers know any machine.
func (o OpenStack) CloudControllerManager() ([]byte, error) {
	ref, err := image(o.Bundle, bundle.ImageOpenStackCCM, bundle.AddonOpenStack)
	if err != nil {
		return nil, err
	}
	return render(NameOpenStack, ccmManifest, o.values(map[string]any{"Image": ref}))
}

// CinderCSI renders the Cinder CSI driver (controllers on control-plane machines, and the driver, without a credential, on every machine) and the
// default StorageClass "cinder".
func (o OpenStack) CinderCSI() ([]byte, error) {
	controller, err := image(o.Bundle, bundle.ImageCinderCSI, bundle.AddonOpenStack)
	if err != nil {
		return nil, err
	}
	node, err := image(o.Bundle, bundle.ImageCinderCSINode, bundle.AddonOpenStack)
	if err != nil {
		return nil, err
	}
	return render(NameCinderCSI, cinderManifest, o.values(map[string]any{
		"Controller": controller, "Node": node, "Replicas": min(2, o.ControlPlanes), "VolumeType": o.VolumeType, "VolumeZone": o.VolumeZone,
	}))
}

// values adds the values common to all manifests. The checksum of configuration and authorities restarts pods when they change; half a SHA-256 over
// content with a long random secret does not reveal the secret.
func (o OpenStack) values(v map[string]any) map[string]any {
	sum := sha256.Sum256(slices.Concat(o.CloudConf, o.Authorities, o.ClientCert, o.ClientKey))
	v["ClusterID"], v["PodCIDR"], v["Checksum"] = quoted(o.ClusterID), quoted(o.PodCIDR), hex.EncodeToString(sum[:16])
	return v
}

// quoted escapes a string for YAML's single quotes.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }
