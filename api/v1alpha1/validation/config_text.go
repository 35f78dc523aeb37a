package validation

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// config checks a text that contains fields of a program's configuration file.
func (c componentCheck) config(text, apiVersion, kind string) {
	if text == "" {
		return
	}
	at := c.path + ".config"
	root := c.mappingText(at, text, "write fields of "+kind+", one a line")
	if root == nil {
		return
	}
	for key, want := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		if got := child(root, key); got != nil && got.Value != want {
			c.Add(at, fmt.Sprintf("line %d: %s is %s, not %s", got.Line, key, strict.Quote(got.Value), want), "leave it out")
		}
	}
	c.configFields(at, "", root)
}

// mappingText parses a text that must be a YAML mapping. If it is not, mappingText adds a finding and returns nil.
func (c componentCheck) mappingText(at, text, hint string) *yaml.Node {
	docs, err := strict.Documents([]byte(text))
	switch {
	case err != nil:
		c.Add(at, strict.NotYAML(err, text), hint)
	case len(docs) != 1 || docs[0].Kind != yaml.MappingNode:
		c.Add(at, "is not one YAML mapping", hint)
	default:
		return docs[0]
	}
	return nil
}

// configFields checks the fields of a mapping at parent in the configuration file, and reports the first wrong one.
func (c componentCheck) configFields(at, parent string, n *yaml.Node) (ok bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if parent == "" && (key.Value == "apiVersion" || key.Value == "kind") {
			continue
		}
		if !c.configField(at, strict.Join(parent, key.Value), key, value) {
			return false
		}
	}
	return true
}

func (c componentCheck) configField(at, field string, key, value *yaml.Node) (ok bool) {
	typ, known := c.table.Field(c.program, field)
	if !known {
		parent := field[:max(strings.LastIndexByte(field, '.'), 0)]
		hint := "known: " + strings.Join(c.table.Fields(c.program, parent), ", ")
		if near := fail.Nearest(key.Value, c.table.Fields(c.program, parent)); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		} else if len(hint) > 400 {
			hint = ""
		}
		c.Add(at, fmt.Sprintf("line %d: %s of Kubernetes %s has no configuration field %s", key.Line, c.program, c.table.Minor, strict.Quote(field)), hint)
		return false
	}
	if instead := flags.InsteadOfField(c.program, field); instead != "" {
		c.taken(at, fmt.Sprintf("line %d: the field %s", key.Line, strict.Quote(field)), instead)
		return false
	}
	var v any
	if err := value.Decode(&v); err != nil {
		c.Add(at, fmt.Sprintf("line %d: %s: %s", key.Line, field, strings.TrimPrefix(err.Error(), "yaml: ")), "")
		return false
	}
	if problem := flags.CheckField(typ, v); problem != "" {
		c.Add(at, fmt.Sprintf("line %d: the field %s: %s", key.Line, field, problem), "")
		return false
	}
	switch typ {
	case "mapping":
		return c.configFields(at, field, value)
	case "list:mapping":
		for _, e := range value.Content {
			if !c.configFields(at, field, e) {
				return false
			}
		}
	}
	return true
}

// admissionConfig checks an AdmissionConfiguration.
func (c componentCheck) admissionConfig(text string) {
	const form = `it starts with "apiVersion: apiserver.config.k8s.io/v1", "kind: AdmissionConfiguration" and has a list of plugins`
	if text == "" {
		return
	}
	at := c.path + ".admissionConfig"
	root := c.mappingText(at, text, form)
	if root == nil {
		return
	}
	plugins := child(root, "plugins")
	switch {
	case valueOf(root, "apiVersion") != "apiserver.config.k8s.io/v1" || valueOf(root, "kind") != "AdmissionConfiguration":
		c.Add(at, "is not an apiserver.config.k8s.io/v1 AdmissionConfiguration", form)
		return
	case plugins == nil || plugins.Kind != yaml.SequenceNode || len(plugins.Content) == 0:
		c.Add(at, "has no plugins", form)
		return
	}
	for i, p := range plugins.Content {
		name := valueOf(p, "name")
		for j := 0; j+1 < len(p.Content); j += 2 {
			if key := p.Content[j].Value; !slices.Contains([]string{"name", "path", "configuration"}, key) {
				c.Add(at, fmt.Sprintf("plugins[%d] has the unknown key %s", i, strict.Quote(key)), "known: name, configuration")
			}
		}
		switch {
		case !c.table.Plugin(name):
			c.unknown(at, "admission plugin", name, c.table.Plugins(), func(t flags.Table) bool { return t.Plugin(name) })
		case valueOf(p, "path") != "":
			c.Add(at, fmt.Sprintf("plugins[%d] names a file, which the machines do not have", i), "write its content as configuration")
		}
		if file := kubeconfigIn(child(p, "configuration")); file != "" {
			c.Add(at, fmt.Sprintf("plugins[%d] names the file %s as kubeConfigFile: API servers' pods mount only files that flags name", i, strict.Quote(file)), "leave it out: webhooks are reached without credentials")
		}
	}
}

// kubeconfigIn returns the first kubeConfigFile in the configuration of an admission plugin (ImagePolicyWebhook and the webhook plugins have one), or "".
func kubeconfigIn(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	if file := valueOf(n, "kubeConfigFile"); file != "" {
		return file
	}
	for _, c := range n.Content {
		if file := kubeconfigIn(c); file != "" {
			return file
		}
	}
	return ""
}
