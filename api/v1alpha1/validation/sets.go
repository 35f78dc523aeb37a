package validation

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// maxSetTimeout is the longest wait for one set.
const maxSetTimeout = time.Hour

// checkSets checks spec.manifests, spec.charts and the contents of their files.
func checkSets(c *v1alpha1.Cluster, r *findings) {
	seen := map[string]int{}
	for i, m := range c.Spec.Manifests {
		field := strict.Item("spec.manifests", i)
		checkSetName(r, "spec.manifests", i, m.Name, m.Namespace, m.Timeout, seen)
		given := 0
		for _, s := range []struct{ key, value string }{{"file", m.File}, {"dir", m.Dir}, {"kustomize", m.Kustomize}} {
			if s.value != "" {
				given++
				checkSource(r, field+"."+s.key, s.value)
			}
		}
		if m.Inline != "" {
			given++
		}
		if given != 1 {
			r.Add(field, fmt.Sprintf("%d of file, dir, kustomize and inline are given", given), "give exactly one")
		}
	}
	seen = map[string]int{}
	for i, ch := range c.Spec.Charts {
		field := strict.Item("spec.charts", i)
		checkSetName(r, "spec.charts", i, ch.Name, ch.Namespace, ch.Timeout, seen)
		if ch.Chart != "" {
			checkSource(r, field+".chart", ch.Chart)
		}
		for j, f := range ch.ValuesFiles {
			checkSource(r, strict.Item(field+".valuesFiles", j), f)
		}
	}
	checkSources(c, r)
}

// setName is the form of the names of sets and namespaces.
var setName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func checkSetName(r *findings, list string, i int, name, namespace string, timeout v1alpha1.Duration, seen map[string]int) {
	const hint = "lower-case letters, digits and dashes"
	if name != "" && (!setName.MatchString(name) || len(name) > 40) {
		r.Add(strict.Item(list, i)+".name", strict.Quote(name)+" is not the name of a set", hint+", up to 40")
	}
	if namespace != "" && (!setName.MatchString(namespace) || len(namespace) > 63) {
		r.Add(strict.Item(list, i)+".namespace", strict.Quote(namespace)+" is not the name of a namespace", hint+", up to 63")
	}
	if timeout.Duration > maxSetTimeout {
		r.Add(strict.Item(list, i)+".timeout", timeout.String()+" is longer than 1h", "")
	}
	first, again := seen[name]
	if seen[name] = i; again && name != "" {
		r.Add(strict.Item(list, i)+".name", fmt.Sprintf("%s is already listed, at %s[%d]", strict.Quote(name), list, first), "give each set its own name")
	}
}

// checkSource checks a path: a file of the operator, named relative to the document's file or absolutely.
func checkSource(r *findings, field, p string) {
	switch {
	case strings.Contains(p, "://"):
		r.Add(field, strict.Quote(p)+" is an address", "name a file or a directory; fetch it beforehand, such as with helm pull or git clone, so that what you reviewed is what is applied")
	case strings.ContainsAny(p, "\x00\n\r") || path.Clean(p) == "." || path.Clean(p) == "/":
		r.Add(field, strict.Quote(p)+" is not a file or directory of its own", "name one beside the document, such as manifests/web")
	}
}

// checkSources checks that each content belongs to a file that a set names.
func checkSources(c *v1alpha1.Cluster, r *findings) {
	named := v1alpha1.SourceFiles(c)
	for p, content := range c.Sources {
		field := "sources[" + strict.Clip(p) + "]"
		if !slices.Contains(named, p) {
			r.Add(field, "no set names this file", "remove it")
		} else if _, err := base64.StdEncoding.DecodeString(content); err != nil {
			r.Add(field, "is not base64", "remove it: Naupegos fills it in when it reads the file")
		}
	}
}
