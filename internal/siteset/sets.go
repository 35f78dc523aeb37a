// Package siteset makes objects out of spec.manifests and spec.charts: it reads the operator's files into the document, and renders sets from the document
// alone.
package siteset

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// Set is one item of spec.manifests or spec.charts.
type Set struct {
	Key       string // names its inventory and its steps: "manifests.web"
	Title     string // for people: "manifests web"
	Field     string // "spec.manifests[0]"
	Namespace string
	Once      bool // applied a single time
	Force     bool
	Timeout   time.Duration
	Helm      string   // of a chart: the Helm release whose objects it takes over, "NAMESPACE/NAME"
	Release   string   // of a chart: its name
	From      []string // inventories of sets that leave the document, whose objects it takes over
	// Moved names by object the set that it comes from, and Heirs the set that takes it over.
	Moved, Heirs map[string]string
	render       func(Cluster) (chart.Rendered, error)
}

// Options returns the options by which the set is applied.
func (s *Set) Options() objects.Options {
	return objects.Options{Addon: s.Key, Prune: true, Shared: true, Force: s.Force, Once: s.Once, Helm: s.Helm, From: s.From, Moved: s.Moved, Heirs: s.Heirs}
}

// OptionsOf returns the options for a rendered set.
func (s *Set) OptionsOf(r chart.Rendered) (objects.Options, error) {
	var hooks []*unstructured.Unstructured
	for _, h := range slices.Concat(r.Before, r.After) {
		hooks = append(hooks, h.Object)
	}
	o, err := s.Options(), error(nil)
	o.Hooks, err = manifest.DigestAll(hooks)
	o.Unrun = r.Unrun
	return o, err
}

// Cluster holds the properties of a cluster on which rendering depends, besides the document.
type Cluster struct {
	Kubernetes string   // release
	APIs       []string // see chart.Release
}

// Render makes the set's objects. An error names the field and the file.
func (s *Set) Render(c Cluster) (chart.Rendered, error) {
	r, err := s.render(c)
	if err != nil {
		return r, fail.Wrap(fail.KindOf(err), err, "%s", s.Title).At(s.Field)
	}
	seen := map[string]bool{}
	for _, u := range r.Objects {
		id := u.GroupVersionKind().GroupKind().String() + " " + manifest.Key(cmp.Or(u.GetNamespace(), s.Namespace, metav1.NamespaceDefault), u.GetName())
		if seen[id] {
			return r, fail.New(fail.Invalid, "%s: %s is there twice", s.Title, manifest.Name(u)).At(s.Field)
		}
		seen[id] = true
	}
	return r, nil
}

// Of lists the sets of a document, in its order.
func Of(doc *v1alpha1.Cluster) []*Set {
	var out []*Set
	for i, m := range doc.Spec.Manifests {
		out = append(out, &Set{
			Key: objects.ManifestsPrefix + m.Name, Title: "manifests " + m.Name, Field: fmt.Sprintf("spec.manifests[%d]", i), Namespace: m.Namespace,
			Once: m.Mode == v1alpha1.ModeOnce, Force: m.Force, Timeout: m.Timeout.Duration,
			render: func(Cluster) (chart.Rendered, error) { return manifests(doc, m) },
		})
	}
	for i, ch := range doc.Spec.Charts {
		out = append(out, &Set{
			Key: objects.ChartPrefix + ch.Name, Title: "chart " + ch.Name, Field: fmt.Sprintf("spec.charts[%d]", i), Namespace: ch.Namespace,
			Once: ch.Mode == v1alpha1.ModeOnce, Force: ch.Force, Timeout: ch.Timeout.Duration, Helm: ch.Namespace + "/" + ch.Name, Release: ch.Name,
			render: func(c Cluster) (chart.Rendered, error) { return renderChart(doc, ch, c) },
		})
	}
	return out
}

// source returns the files of a source. A document without them was not read by a command that has the files.
func source(doc *v1alpha1.Cluster, p string) (files, error) {
	text := doc.Sources[p]
	if text == "" {
		return nil, fail.New(fail.Refused, "the document lacks the content of %s", p).Do("send it with the naupegos command, which reads the file and puts its content into the document")
	}
	fs, err := unpack(text)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read sources[%s]", p)
	}
	return fs, nil
}

func manifests(doc *v1alpha1.Cluster, m v1alpha1.Manifests) (chart.Rendered, error) {
	var out chart.Rendered
	if m.Inline != "" {
		all, err := manifest.Parse([]byte(m.Inline))
		if err != nil {
			return out, fail.Wrap(fail.Invalid, err, "read inline")
		}
		out.Objects = all
		return out, nil
	}
	top, below := m.KustomizeTop()
	p := m.File + m.Dir + top
	fs, err := source(doc, p)
	if err != nil {
		return out, err
	}
	if m.Kustomize != "" {
		text, err := build(fs, below)
		if err == nil {
			out.Objects, err = manifest.Parse(text)
		}
		if err != nil {
			return out, fail.Wrap(fail.KindOf(err), err, "%s", p)
		}
		return out, nil
	}
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if m.Dir != "" && !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			continue
		}
		all, err := manifest.Parse(fs[name])
		if err != nil {
			return out, fail.Wrap(fail.Invalid, err, "read %s", inDir(p, m.Dir, name))
		}
		out.Objects = append(out.Objects, all...)
	}
	if len(out.Objects) == 0 {
		return out, fail.New(fail.Invalid, "%s holds no objects", p)
	}
	manifest.Sort(out.Objects)
	return out, nil
}

func inDir(p, dir, name string) string {
	if dir == "" {
		return p
	}
	return path.Join(p, name)
}

func renderChart(doc *v1alpha1.Cluster, ch v1alpha1.Chart, c Cluster) (chart.Rendered, error) {
	fs, err := source(doc, ch.Chart)
	if err != nil {
		return chart.Rendered{}, err
	}
	r := chart.Release{Name: ch.Name, Namespace: ch.Namespace, Version: ch.Version, Values: ch.Values, Kubernetes: c.Kubernetes, APIs: c.APIs}
	for _, p := range ch.ValuesFiles {
		vs, err := source(doc, p)
		if err != nil {
			return chart.Rendered{}, err
		}
		for _, data := range vs {
			if _, err := chart.ReadValues(data); err != nil {
				return chart.Rendered{}, fail.Wrap(fail.Invalid, err, "read the values of %s", p)
			}
			r.ValuesFiles = append(r.ValuesFiles, data)
		}
	}
	return chart.Render(fs, r)
}

// All renders all sets. It adds the kinds that sets define to those of the cluster, and refuses an object that is in two sets.
func All(doc *v1alpha1.Cluster, c Cluster) (map[string]chart.Rendered, error) {
	sets, out := Of(doc), map[string]chart.Rendered{}
	render := func() error {
		for _, s := range sets {
			r, err := s.Render(c)
			if err != nil {
				return err
			}
			out[s.Key] = r
		}
		return nil
	}
	if err := render(); err != nil {
		return nil, err
	}
	if more := defined(out, c.APIs); len(more) > 0 {
		if c.APIs == nil {
			c.APIs = chart.BareAPIs()
		}
		c.APIs = append(slices.Clone(c.APIs), more...)
		if err := render(); err != nil {
			return nil, err
		}
	}
	return out, twice(sets, out)
}

// defined lists the versions and kinds that the definitions among rendered objects add.
func defined(all map[string]chart.Rendered, known []string) (more []string) {
	for _, r := range all {
		for _, u := range r.Objects {
			gk, ok := manifest.Defines(u)
			if !ok {
				continue
			}
			versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
			for _, v := range versions {
				m, _ := v.(map[string]any)
				name, _ := m["name"].(string)
				for _, api := range []string{gk.Group + "/" + name, gk.Group + "/" + name + "/" + gk.Kind} {
					if !slices.Contains(known, api) && !slices.Contains(more, api) {
						more = append(more, api)
					}
				}
			}
		}
	}
	slices.Sort(more)
	return more
}

func twice(sets []*Set, all map[string]chart.Rendered) error {
	first := map[string]*Set{}
	for _, s := range sets {
		for _, u := range all[s.Key].Objects {
			namespace := u.GetNamespace()
			if namespace == "" {
				namespace = s.Namespace
			}
			id := u.GroupVersionKind().GroupKind().String() + " " + manifest.Key(namespace, u.GetName())
			if other := first[id]; other != nil {
				if cluster := u.GetNamespace() == "" && s.Namespace != other.Namespace; !cluster {
					return fail.New(fail.Invalid, "%s: %s belongs to %s, too", s.Title, manifest.Name(u), other.Title).At(s.Field).Do("keep it in one of them")
				}
			}
			first[id] = s
		}
	}
	return nil
}

// Needs lists for each set the sets that come before it: those that define its kinds or make its namespaces. Of sets that need each other, the document's
// order decides.
func Needs(sets []*Set, all map[string]chart.Rendered) map[string][]string {
	out := map[string][]string{}
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return from == to || slices.ContainsFunc(out[from], func(n string) bool { return reaches(n, to) })
	}
	kinds, namespaces := map[schema.GroupKind]string{}, map[string]string{}
	for _, s := range sets {
		for _, u := range all[s.Key].Objects {
			if gk, ok := manifest.Defines(u); ok {
				kinds[gk] = s.Key
			}
			if u.GetKind() == "Namespace" {
				namespaces[u.GetName()] = s.Key
			}
		}
	}
	for _, s := range sets {
		need := func(other string) {
			if other != "" && other != s.Key && !reaches(other, s.Key) && !slices.Contains(out[s.Key], other) {
				out[s.Key] = append(out[s.Key], other)
			}
		}
		for _, u := range all[s.Key].Objects {
			need(kinds[u.GroupVersionKind().GroupKind()])
			need(namespaces[u.GetNamespace()])
		}
		need(namespaces[s.Namespace])
	}
	return out
}

// Makers names for each set the set that makes its namespace, if others use the same one, no set holds it as an object and missing says that it is not there. The
// maker is the first set in the document that needs none of the others, by Needs.
func Makers(sets []*Set, all map[string]chart.Rendered, needs map[string][]string, missing func(namespace string) bool) map[string]string {
	held := map[string]bool{metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true, "": true}
	for _, s := range sets {
		for _, u := range all[s.Key].Objects {
			held[u.GetName()] = held[u.GetName()] || u.GetKind() == "Namespace"
		}
	}
	users := map[string][]*Set{}
	for _, s := range sets {
		if !held[s.Namespace] && missing(s.Namespace) {
			users[s.Namespace] = append(users[s.Namespace], s)
		}
	}
	out := map[string]string{}
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return from == to || out[from] != "" && reaches(out[from], to) || slices.ContainsFunc(needs[from], func(n string) bool { return reaches(n, to) })
	}
	for _, namespace := range slices.Sorted(maps.Keys(users)) {
		same := users[namespace]
		maker := same[slices.IndexFunc(same, func(s *Set) bool {
			return !slices.ContainsFunc(same, func(other *Set) bool { return other != s && reaches(s.Key, other.Key) })
		})]
		for _, s := range same {
			if s != maker && !reaches(maker.Key, s.Key) {
				out[s.Key] = maker.Key
			}
		}
	}
	return out
}

// IsSet reports whether an inventory is that of a set of a document.
func IsSet(inventory string) bool {
	return strings.HasPrefix(inventory, objects.ManifestsPrefix) || strings.HasPrefix(inventory, objects.ChartPrefix)
}
