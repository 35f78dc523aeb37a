// Package v1alpha1 is the Cluster document: its types, strict parsing, defaults, validation, JSON Schema and reference.
//
// The document is the only source of intent, so everything a user can wish for is a field here, and the struct tags and
// doc comments are the one source of defaults, limits, schema and reference.
// The package is pure: it opens no file, asks no network and knows nothing of how a cluster is built.
package v1alpha1

import (
	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/release"
)

// What a document says of itself.
const (
	Group      = "naupegos.dev"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
	Kind       = "Cluster"
)

// LatestKubernetes is the default of spec.kubernetes.version.
const LatestKubernetes = release.Default

// MaxDocumentBytes is the size above which Parse refuses a document without reading it.
const MaxDocumentBytes = strict.MaxDocumentBytes

// SupportedMinors returns the Kubernetes minor releases that clusters can be made of, oldest first.
func SupportedMinors() []string { return release.Minors() }
