package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// generic returns the output of -o json as data. Whole numbers stay integers.
func generic(v any) (data any, err error) {
	raw, err := versioned(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&data); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the output as data")
	}
	return numbers(data), nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = numbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = numbers(value)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return v
}

// harmless escapes characters that a terminal would interpret, except newlines and tabs.
func harmless(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if hidden(r) {
			b.WriteString(words.Cell(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// parseTemplate reads the template for a format.
func parseTemplate(format, text string) (func(io.Writer, any) error, error) {
	kind, fromFile := strings.CutSuffix(format, "-file")
	if fromFile {
		data, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	switch kind {
	case "jsonpath":
		return parsePath(text)
	case "go-template":
		t, err := template.New("output").Option("missingkey=zero").Parse(text)
		if err != nil {
			return nil, err
		}
		return func(w io.Writer, data any) error { return t.Execute(w, data) }, nil
	}
	if fromFile { // two lines, titles and paths, as kubectl expects
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) != 2 || len(strings.Fields(lines[0])) != len(strings.Fields(lines[1])) {
			return nil, fmt.Errorf("the file needs two lines: titles, and as many paths")
		}
		titles, paths := strings.Fields(lines[0]), strings.Fields(lines[1])
		for i := range titles {
			titles[i] += ":" + paths[i]
		}
		text = strings.Join(titles, ",")
	}
	return parseColumns(text)
}

// parsePath parses a JSONPath template. A single path needs no braces.
func parsePath(text string) (func(io.Writer, any) error, error) {
	if !strings.Contains(text, "{") && (strings.HasPrefix(text, ".") || strings.HasPrefix(text, "$")) {
		text = "{" + text + "}"
	}
	p := jsonpath.New("output").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, err
	}
	return p.Execute, nil
}

// column is a column of custom-columns.
type column struct {
	title string
	path  func(io.Writer, any) error
}

func parseColumns(text string) (func(io.Writer, any) error, error) {
	var columns []column
	for n, part := range strings.Split(text, ",") {
		title, path, ok := strings.Cut(part, ":")
		if !ok || title == "" || path == "" {
			return nil, fmt.Errorf("column %d, %q, is not TITLE:PATH", n+1, part)
		}
		path = "." + strings.TrimPrefix(strings.Trim(path, "{}"), ".")
		write, err := parsePath(path)
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", n+1, err)
		}
		columns = append(columns, column{title, write})
	}
	return func(w io.Writer, data any) error {
		t := NewTable(w)
		var titles []string
		for _, c := range columns {
			titles = append(titles, c.title)
		}
		t.Head(strings.Join(titles, "\t"))
		for _, item := range items(data) {
			cells := make([]any, 0, len(columns))
			for _, c := range columns {
				var cell strings.Builder
				if err := c.path(&cell, item); err != nil {
					return err
				}
				if cell.Len() == 0 {
					cell.WriteString("<none>")
				}
				cells = append(cells, cell.String())
			}
			t.Row(strings.Repeat("%s\t", len(cells)-1)+"%s\n", cells...)
		}
		return t.Flush()
	}, nil
}

// items returns the entries of a list, or the data itself if it is not a list.
func items(data any) []any {
	if top, ok := data.(map[string]any); ok {
		if list, ok := top["items"].([]any); ok {
			return list
		}
		if list, ok := top["items"]; ok && list == nil {
			return nil
		}
	}
	return []any{data}
}

// nameKeys are the fields that may name an entry, in the order of preference.
var nameKeys = []string{"name", "id", "cluster", "seq", "kubernetes"}

// writeNames prints the name of each entry, or its ID.
func writeNames(w io.Writer, data any) error {
	for _, item := range items(data) {
		fields, _ := item.(map[string]any)
		var name any
		for _, key := range nameKeys {
			if name = fields[key]; name != nil && name != "" {
				break
			}
		}
		if name == nil || name == "" {
			return fmt.Errorf("what this verb prints has no names")
		}
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}
