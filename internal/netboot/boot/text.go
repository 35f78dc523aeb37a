package boot

import (
	"bytes"
	"errors"
	"strings"
	"text/template"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// kind is a kind of template, named like its directory.
type kind string

const (
	ignitionKind kind = "ignition"
	cloudKind    kind = "cloud"
	genericKind  kind = "generic"
)

// text is a compiled template.
type text struct {
	fixed    []byte // the answer, if it is the same for all machines
	template *template.Template
	finish   func([]byte) ([]byte, error) // converts the rendered template to the answer; nil: no conversion
}

// compile compiles a file. It may return a text with an error: matchbox's answer in that case.
func compile(k kind, name, content string) (*text, error) {
	if k == ignitionKind && (strings.HasSuffix(name, ".ign") || strings.HasSuffix(name, ".ignition")) {
		answer, err := ignition([]byte(content))
		return &text{fixed: answer}, err
	}
	t, err := template.New("").Option("missingkey=error").Parse(content)
	if err != nil {
		return nil, err
	}
	finish := map[kind]func([]byte) ([]byte, error){ignitionKind: butane, cloudKind: cloudConfig}[k]
	return &text{template: t, finish: finish}, nil
}

// render returns the answer for a machine.
func (t *text) render(vars map[string]any) ([]byte, error) {
	if t.fixed != nil {
		return t.fixed, nil
	}
	var b bytes.Buffer
	if err := t.template.Execute(&b, vars); err != nil {
		return nil, err
	}
	if t.finish == nil {
		return b.Bytes(), nil
	}
	return t.finish(b.Bytes())
}

// cloudConfig returns its argument if it is a cloud-config in valid YAML or a script. cloud-init accepts nothing else.
func cloudConfig(data []byte) ([]byte, error) {
	first, _, _ := strings.Cut(string(data), "\n")
	if strings.HasPrefix(first, "#!") {
		return data, nil
	}
	if strings.TrimRightFunc(first, unicode.IsSpace) != "#cloud-config" {
		return nil, errors.New("it begins neither with #cloud-config nor with #!")
	}
	var any map[string]any
	if err := yaml.Unmarshal(data, &any); err != nil {
		return nil, err
	}
	return data, nil
}
