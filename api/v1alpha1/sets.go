package v1alpha1

import (
	"slices"
	"strings"
)

// Manifests are objects of the user's own that Naupegos applies to the cluster and keeps as they are written: exactly one of file, dir, kustomize and inline.
type Manifests struct {
	// Name of the set: lower-case letters, digits and dashes. A set with another name is another set.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// File with YAML or JSON documents, relative to the document's file.
	File string `json:"file,omitempty" yaml:"file,omitempty" jsonschema:"maxLength=500" host:"none"`
	// Directory whose files *.yaml, *.yml and *.json are read, also below it, relative to the document's file.
	Dir string `json:"dir,omitempty" yaml:"dir,omitempty" jsonschema:"maxLength=500" host:"none"`
	// Directory with a kustomization.yaml, relative to the document's file. Everything that it names must lie in the directory. For an overlay that names directories beside it, write TOP//DIRECTORY, such as deploy//overlays/prod: TOP is read, and DIRECTORY below it is built.
	Kustomize string `json:"kustomize,omitempty" yaml:"kustomize,omitempty" jsonschema:"maxLength=500" host:"none"`
	// The YAML documents themselves.
	Inline string `json:"inline,omitempty" yaml:"inline,omitempty" jsonschema:"maxLength=524288"`
	// Namespace of objects that name none. Naupegos creates it if it does not exist.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty" jsonschema:"default=default,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// What Naupegos keeps: full mends changes by hand and removes objects that left the set; once applies the set a single time and leaves it alone, also when it leaves the list.
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"default=full,enum=full,enum=once"`
	// Take over fields that other programs manage, such as the replicas of a HorizontalPodAutoscaler.
	Force bool `json:"force,omitempty" yaml:"force,omitempty"`
	// How long apply waits until the workloads are ready, and for each Job of a hook, from 10s to 1h.
	Timeout Duration `json:"timeout,omitzero" yaml:"timeout,omitempty" jsonschema:"default=5m"`
}

// Chart is a Helm chart of the user's own. Naupegos renders it without access to the cluster and applies its objects.
type Chart struct {
	// Name of the release: lower-case letters, digits and dashes. A release with another name is another one.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// The chart: a directory, or a .tgz that helm package made, relative to the document's file.
	Chart string `json:"chart" yaml:"chart" jsonschema:"required,maxLength=500" host:"none"`
	// Version that the chart must have. Left out: any.
	Version string `json:"version,omitempty" yaml:"version,omitempty" jsonschema:"maxLength=100" host:"none"`
	// Namespace of the release. Naupegos creates it if it does not exist.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty" jsonschema:"default=default,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Values. They override those of valuesFiles.
	Values map[string]any `json:"values,omitempty" yaml:"values,omitempty"`
	// Files with values, relative to the document's file. A later file overrides an earlier one.
	ValuesFiles []string `json:"valuesFiles,omitempty" yaml:"valuesFiles,omitempty" jsonschema:"maxItems=20" host:"none"`
	// What Naupegos keeps: full mends changes by hand and removes objects that left the set; once applies the set a single time and leaves it alone, also when it leaves the list.
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"default=full,enum=full,enum=once"`
	// Take over fields that other programs manage, such as the replicas of a HorizontalPodAutoscaler.
	Force bool `json:"force,omitempty" yaml:"force,omitempty"`
	// How long apply waits until the workloads are ready, and for each Job of a hook, from 10s to 1h.
	Timeout Duration `json:"timeout,omitzero" yaml:"timeout,omitempty" jsonschema:"default=5m"`
}

// Modes of sets.
const (
	ModeFull = "full"
	ModeOnce = "once"
)

// SourceFiles lists the files and directories of the operator that a document's sets name, each once, in order.
func SourceFiles(c *Cluster) []string {
	var all []string
	add := func(paths ...string) {
		for _, p := range paths {
			if p != "" && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	for _, m := range c.Spec.Manifests {
		top, _ := m.KustomizeTop()
		add(m.File, m.Dir, top)
	}
	for _, ch := range c.Spec.Charts {
		add(ch.Chart)
		add(ch.ValuesFiles...)
	}
	return all
}

// KustomizeTop returns the directory that is read for a kustomization, and the directory below it that is built; empty: the same.
func (m *Manifests) KustomizeTop() (top, below string) {
	top, below, _ = strings.Cut(m.Kustomize, "//")
	return top, strings.Trim(below, "/")
}
