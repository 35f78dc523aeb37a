package v1alpha1

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the reference of the document in Markdown: a table of every field, from the types themselves.
func Reference() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The Cluster document\n\n`apiVersion: %s`, `kind: %s`. Generated from the types in `api/%s`; do not edit.\n\n", APIVersion, Kind, Version)
	fmt.Fprintf(&b, "A document is YAML in UTF-8 of at most %d KiB. Unknown keys, duplicate keys, aliases, merge keys and tags are errors. Durations are written like `90s`, `5m`, `1h30m`.\n\n", MaxDocumentBytes>>10)
	fmt.Fprintf(&b, "Supported Kubernetes minor releases: %s.\n", strings.Join(SupportedMinors(), ", "))
	b.WriteString("\nThe column *change* says what it means to change a field of a cluster that is up. **free**: nothing that runs is disturbed. **rolling**: services restart, one machine after another. **consent**: something is given up for good, and `apply` needs `--consent` with the name. **verb**: another command does it. **refused**: it can't change while the cluster lives.\n")
	section(&b, docs, "", reflect.TypeFor[Cluster]())
	return b.Bytes(), nil
}

// section writes the table of one type and then the sections of the types in it.
func section(b *bytes.Buffer, docs map[string]string, path string, t reflect.Type) {
	title := "The document"
	if path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| field | type | default | change | description |\n|---|---|---|---|---|\n", title, docs[t.Name()])
	fields := fieldsOf(t)
	for _, f := range fields {
		def := ""
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.key, typeText(f), def, changeText(join(path, f.key), f), strings.ReplaceAll(docs[t.Name()+"."+f.name], "|", `\|`))
	}
	for _, f := range fields {
		p, e := join(path, f.key), f.typ
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			if e.Kind() == reflect.Slice {
				p += "[]"
			}
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !isText(e) {
			section(b, docs, p, e)
		}
	}
}

// typeText says in words what a field takes.
func typeText(f field) string {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(f.enum) > 0 {
		return "`" + strings.Join(f.enum, "`, `") + "`"
	}
	if isText(t) {
		return "duration"
	}
	switch t.Kind() {
	case reflect.Int:
		return fmt.Sprintf("number %d–%d", *f.min, *f.max)
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Map:
		return "text by text"
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of mappings"
		}
		return "list of texts"
	}
	return "text"
}
