package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// Document is an object that a chart makes, as text.
type Document struct {
	Where string // the template and the object: "web/templates/job.yaml: Job shop/migrate"
	Test  bool   // nothing but helm test makes it
	JSON  []byte
}

// Look is everything that a chart makes, whether or not a plan could have it.
type Look struct {
	Chart     string // name and version: "web 1.2.0"
	Documents []Document
	Listed    string   // the images that the chart's author lists in Chart.yaml, as YAML
	LookedUp  []string // objects of the cluster that templates look up; each lookup returned nothing
}

// LookInto renders a chart to see what is in it. It accepts charts that Render refuses: with random values and unknown hooks.
func LookInto(files map[string][]byte, r Release) (Look, error) {
	c, err := load(files)
	if err != nil {
		return Look{}, err
	}
	if r.Name == "" {
		r.Name = c.Name()
	}
	if err := check(c, r); err != nil {
		return Look{}, err
	}
	values, err := r.values()
	if err != nil {
		return Look{}, err
	}
	var asked []string
	texts, err := render(c, values, r, findNothing(&asked), false)
	if err != nil {
		return Look{}, err
	}
	out := Look{Chart: c.Name() + " " + c.Metadata.Version, Listed: listed(c), LookedUp: asked}
	for _, crd := range c.CRDObjects() {
		texts[crd.Filename] = string(crd.File.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if isText(name) {
			continue
		}
		if err := out.read(name, texts[name]); err != nil {
			return Look{}, err
		}
	}
	return out, nil
}

// listed returns the annotations by which authors list images.
func listed(c *v2.Chart) string {
	return c.Metadata.Annotations["artifacthub.io/images"] + "\n" + c.Metadata.Annotations["helm.sh/images"]
}

// read splits a rendered file.
func (l *Look) read(name, text string) error {
	docs, err := documents(name, []byte(text))
	if err != nil {
		return err
	}
	for _, raw := range docs {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name         string            `json:"name"`
				GenerateName string            `json:"generateName"`
				Namespace    string            `json:"namespace"`
				Annotations  map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return fail.Wrap(fail.Invalid, err, "read the rendered template").At(name)
		}
		m := head.Metadata
		l.Documents = append(l.Documents, Document{
			Where: fmt.Sprintf("%s: %s %s", name, head.Kind, manifest.Key(m.Namespace, m.Name+m.GenerateName)),
			Test:  onlyTest(m.Annotations[annotationHook]), JSON: raw,
		})
	}
	return nil
}

// onlyTest reports whether a hook has test events alone.
func onlyTest(events string) bool {
	for event := range strings.SplitSeq(events, ",") {
		if event = strings.ToLower(strings.TrimSpace(event)); event != "test" && event != "test-success" && event != "test-failure" {
			return false
		}
	}
	return true
}

// SetValue sets a value in values, "image.tag=v1", as Helm's --set does.
func SetValue(values map[string]any, text string) error {
	if !strings.Contains(text, "=") {
		return fail.New(fail.Invalid, "%q is not a value", text).Do("write it as KEY=VALUE, such as image.tag=v1")
	}
	if err := strvals.ParseInto(text, values); err != nil {
		return fail.New(fail.Invalid, "%q is not a value: %s", text, oneLine(err.Error())).Do("write it as KEY=VALUE, such as image.tag=v1")
	}
	return nil
}
