package addon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"text/template"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// Addon is a set of manifests that is installed, compared and removed as a whole.
type Addon struct {
	Name      string     // identifies it in the cluster: kube.ApplyOptions.Addon
	Title     string     // for people: "the cloud controller manager"
	Reason    string     // why it is installed
	Manifests []byte     // YAML documents
	Secret    bool       // they contain a secret: never show them
	Workloads []Workload // to wait for after applying
}

// Workload is a workload that must run for the addon to work.
type Workload struct {
	Kind, Name string // "DaemonSet", "Deployment" or "StatefulSet"
	In         string // namespace; empty: Namespace
}

// Namespace is the namespace of workloads and Secrets that name no other.
const Namespace = "kube-system"

// render fills a template.
func render(name, text string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the manifest of %s", name)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the manifest of %s", name)
	}
	return out.Bytes(), nil
}

// checksum identifies a configuration in the annotations of pods, which are replaced when it changes.
func checksum(config []byte) string {
	sum := sha256.Sum256(config)
	return hex.EncodeToString(sum[:8])
}

// image returns the reference of an image in the bundle. If it is missing, the error names the set of addons that contains it.
func image(m bundle.Manifest, name, set string) (string, error) {
	for _, i := range m.Images {
		if i.Name == name {
			return i.Ref, nil
		}
	}
	return "", fail.New(fail.NotFound, "the bundle of Kubernetes %s has no image %q", m.Title(), name).
		Do("make one that has: naupegos bundle build --kubernetes %s --addons %s", m.Kubernetes, strings.Join(slices.Concat(m.Addons, []string{set}), ","))
}
