package bundletest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
)

// WriteSmall writes a small bundle into a library by hand. Its kubectl is the given text.
func WriteSmall(root, kubectl string) (id string, err error) {
	l, err := bundle.OpenLibrary(root)
	if err != nil {
		return "", err
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	var errs []error
	blob := func(name, content string) bundle.Artifact {
		h := sum([]byte(content))
		errs = append(errs, os.WriteFile(filepath.Join(l.Root(), "blobs/sha256", h), []byte(content), 0o755))
		return bundle.Artifact{Name: name, Digest: "sha256:" + h, Size: int64(len(content))}
	}
	m := bundle.Manifest{Schema: 1, Kubernetes: release.Default, Platform: "linux/" + runtime.GOARCH, Origin: "built", Repository: bundle.Repository,
		Components: []bundle.Component{{Name: "kubernetes", Version: release.Default, Source: "module k8s.io/kubernetes@" + release.Default}},
		Binaries:   []bundle.Artifact{blob("kubectl", kubectl), blob("kubelet", "kubelet")},
		Images:     []bundle.Image{{Name: "pause", Ref: "naupegos.dev/k8s/pause:1", ID: "sha256:" + sum(nil), Archive: blob("image/pause", "archive"), Roles: []string{"worker"}}},
		Files:      []bundle.Artifact{blob(bundle.SBOMName, `{"bomFormat":"CycloneDX"}`)},
	}
	data, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	data = append(data, '\n')
	id = sum(data)
	errs = append(errs, os.WriteFile(filepath.Join(l.Root(), "manifests", id+".json"), data, 0o644))
	return id, errors.Join(errs...)
}
