// Package v1alpha1 is the Cluster document: its types and defaults. Package validation reads and checks documents.
//
// The document is the only source of intent, so everything that a user can choose is a field here. The struct tags and doc comments are the only
// source of defaults, limits, schema and reference. The package is pure: it opens no file, uses no network and does not know how a cluster is built.
package v1alpha1

import (
	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/release"
)

// The apiVersion and kind of a document.
const (
	Group      = "naupegos.dev"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
	Kind       = "Cluster"
)

// LatestKubernetes is the default of spec.kubernetes.version.
const LatestKubernetes = release.Default

// MaxDocumentBytes is the maximum size of a document; validation.Parse refuses larger ones without parsing.
const MaxDocumentBytes = strict.MaxDocumentBytes

// SupportedMinors returns the supported Kubernetes minor releases, oldest first.
func SupportedMinors() []string { return release.Minors() }
