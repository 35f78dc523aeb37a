// Package bundle makes, fetches, verifies and provides bundles: one Kubernetes release with everything that a cluster of it needs, content-addressed,
// so that a bundle alone suffices to install a cluster.
//
// It knows nothing of clusters or machines.
package bundle

// Manifest describes a bundle. Its canonical JSON's SHA-256 is the bundle's ID.
type Manifest struct {
	Schema     int         `json:"schema"`           // 1
	Kubernetes string      `json:"kubernetes"`       // "v1.37.2"
	Platform   string      `json:"platform"`         // "linux/amd64"
	Origin     string      `json:"origin"`           // "built" or "pulled"
	Addons     []string    `json:"addons,omitempty"` // sets of addons whose images it has in addition to Kubernetes', sorted
	Repository string      `json:"repository"`       // imageRepository for kubeadm: prefix of every Image.Ref
	Components []Component `json:"components"`       // the software it was made from, sorted by name
	Binaries   []Artifact  `json:"binaries"`         // executables for hosts, sorted by name
	Images     []Image     `json:"images"`           // container images, sorted by name
	Files      []Artifact  `json:"files"`            // files for neither hosts nor containers, sorted by name: SBOMName, definitions of custom resources
}

// SBOMName is the name of the CycloneDX bill of materials among Manifest.Files.
const SBOMName = "sbom.cdx.json"

// Component is a piece of software in the bundle.
type Component struct {
	Name    string `json:"name"`    // "kubernetes", "etcd", "coredns", "flannel", "cni-plugins", "containerd", …
	Version string `json:"version"` // as its project writes it: "v1.37.2", "v3.6.16"
	Source  string `json:"source"`  // "module k8s.io/kubernetes@v1.37.2" or the URL it was pulled from
}

// Artifact is one content-addressed file of the bundle.
type Artifact struct {
	Name   string `json:"name"`   // "kubelet", "cni/bridge"
	Digest string `json:"digest"` // "sha256:<hex>" of the file
	Size   int64  `json:"size"`   // bytes
}

// Image is a container image of the bundle, kept as a docker-style tarball holding just this image under Ref.
type Image struct {
	Name    string   `json:"name"`    // "kube-apiserver"
	Ref     string   `json:"ref"`     // "naupegos.dev/k8s/kube-apiserver:v1.37.2"
	ID      string   `json:"id"`      // digest of the image manifest as containerd shows it after import
	Archive Artifact `json:"archive"` // the tarball blob
	Roles   []string `json:"roles"`   // roles whose machines need it: "control-plane", "worker"
}
