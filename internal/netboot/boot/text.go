package boot

import (
	"bytes"
	"errors"
	"strings"
	"text/template"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// kind is a kind of template: the directory that it lies in.
type kind string

const (
	ignitionKind kind = "ignition"
	cloudKind    kind = "cloud"
	genericKind  kind = "generic"
)

// text is a file that machines are configured from, ready to be answered with.
type text struct {
	fixed    []byte // what to answer, where it is the same for all machines
	template *template.Template
	finish   func([]byte) ([]byte, error) // makes the answer of what the template came to; nil: it is the answer
}

// compile makes a text of a file. Where it returns an error there may be a text all the same, with what matchbox answers then.
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

// render returns what a machine is answered with.
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

// cloudConfig returns a cloud-config or a script as it is. Nothing else is for cloud-init, and a cloud-config has to be YAML.
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
