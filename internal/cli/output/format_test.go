package output

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

type machineRow struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Count int64  `json:"count"`
	Pool  string `json:"pool,omitempty"`
}

// TestFormats is stumble 12: the values of -o that kubectl's users type.
func TestFormats(t *testing.T) {
	rows := []machineRow{{"demo-cp-1", "control-plane", 123456789, ""}, {"demo-a-1", "worker\x1b[2J", 2, "a"}}
	path := filepath.Join(t.TempDir(), "t")
	testkit.Must(t, os.WriteFile(path, []byte("{.items[*].role}\n"), 0o600))
	columns := filepath.Join(t.TempDir(), "c")
	testkit.Must(t, os.WriteFile(columns, []byte("N  R\n.name role\n"), 0o600))
	for format, want := range map[string]string{
		"name":                                            "demo-cp-1\ndemo-a-1\n",
		"jsonpath={.items[*].name}":                       "demo-cp-1 demo-a-1",
		"jsonpath=.items[0].count":                        "123456789",
		"jsonpath={.schemaVersion}":                       "1",
		"jsonpath-file=" + path:                           "control-plane worker␛[2J\n",
		"jsonpath={.items[1].nope}":                       "",
		"jsonpath={.items[?(@.count==2)].name}":           "demo-a-1",
		"jsonpath={range .items[*]}{.name}{\"\\n\"}{end}": "demo-cp-1\ndemo-a-1\n",
		"go-template={{range .items}}{{.name}};{{end}}":   "demo-cp-1;demo-a-1;",
		"custom-columns=N:.name,COUNT:count,POOL:{.pool}": "N          COUNT      POOL\ndemo-cp-1  123456789  <none>\ndemo-a-1   2          a\n",
		"custom-columns-file=" + columns:                  "N          R\ndemo-cp-1  control-plane\ndemo-a-1   worker␛[2J\n",
		"wide":                                            "the table",
		"table":                                           "the table",
	} {
		var f Format
		testkit.Must(t, f.Set(format))
		var b strings.Builder
		testkit.Must(t, f.Print(&b, rows, func(w io.Writer) error {
			_, err := w.Write([]byte("the table"))
			return err
		}))
		if b.String() != want {
			t.Errorf("%s: %q, want %q", format, b.String(), want)
		}
	}
	var b strings.Builder
	one := Format{}
	testkit.Must(t, one.Set("name"))
	testkit.Must(t, one.Print(&b, rows[0], nil))
	testkit.Must(t, one.Print(&b, []machineRow{}, nil))
	testkit.Must(t, one.Print(&b, []machineRow(nil), nil))
	testkit.Fails(t, one.Print(&b, map[string]int{"x": 1}, nil), fail.Invalid, "has no names")
	if b.String() != "demo-cp-1\n" {
		t.Errorf("%q", b.String())
	}
}

// TestWrongFormats: an unknown format or invalid template is refused before the verb begins.
func TestWrongFormats(t *testing.T) {
	for format, want := range map[string]string{
		"jsn": "did you mean json?", "excel": "there are table, wide, json", "jsonpath": "write it as jsonpath=TEMPLATE", "jsonpath=": "has no template", "jsonpath={.x": "unclosed action",
		"jsonpath-file=/nowhere/x": "/nowhere/x", "go-template={{.x": "unclosed action", "custom-columns=NAME": "column 1", "custom-columns=A:.a,B:": "column 2", "custom-column=A:.a": "did you mean custom-columns?",
	} {
		var f Format
		testkit.Fails(t, f.Set(format), fail.Invalid, want)
	}
}

// TestSelector: entries are selected by their fields; an unknown field is refused, because it would match no entry.
func TestSelector(t *testing.T) {
	rows := []machineRow{{"a", "control-plane", 1, ""}, {"b", "worker", 2, "x"}, {"c", "worker", 3, "y"}}
	for text, want := range map[string]string{"role=worker": "bc", "role!=worker": "a", "pool in (x,y),count=3": "c", "!pool": "a", "pool": "bc", "role=none": "", "": "abc"} {
		var s Selector
		testkit.Must(t, s.Set(text))
		got := ""
		for _, r := range testkit.Value(Select(&s, rows))(t) {
			got += r.Name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var s Selector
	testkit.Must(t, s.Set("rol=worker"))
	_, err := Select(&s, rows)
	testkit.Fails(t, err, fail.Invalid, "did you mean role?")
	if err := s.Set("role=="); err != nil {
		t.Error(err)
	}
	if err := s.Set("=x"); err == nil {
		t.Error("=x is no selector")
	}
}
