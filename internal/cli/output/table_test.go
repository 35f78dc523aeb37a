package output

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

type named string

func TestTableShowsForeignTextWithoutObeyingIt(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b)
	table.Head("NAME\tSTATE\tN")
	table.Row("%s\t%s\t%d\n", "a\nFAKE\tLINE", named("\x1b]0;x\a"), 7)
	table.Row("%s\t%v\t%.1f\n", "\u202eb", testkit.Value("x", error(nil))(t), 1.5)
	testkit.Must(t, table.Flush())
	if lines := strings.Split(b.String(), "\n"); len(lines) != 4 || strings.ContainsAny(b.String(), "\x1b\a\u202e") || !strings.Contains(lines[1], "a␤FAKE␉LINE") || !strings.Contains(lines[1], "␛]0;x␇") {
		t.Errorf("the table is %q", b.String())
	}
}

// TestJSONIsInert: a program reads the original value, and a terminal that shows the JSON interprets none of it.
func TestJSONIsInert(t *testing.T) {
	in := map[string]string{"text": "a\u202eb\u009b2J\x7f\x1b]0;x\a\nü"}
	for _, format := range []string{"json", "yaml"} {
		var b strings.Builder
		testkit.Must(t, (&Format{name: format}).Print(&b, in, nil))
		if strings.ContainsAny(b.String(), "\u202e\u009b\x7f\x1b\a") {
			t.Errorf("%s has %q", format, b.String())
		}
		if format == "json" {
			var out map[string]any
			testkit.Must(t, json.Unmarshal([]byte(b.String()), &out))
			if out["text"] != in["text"] {
				t.Errorf("it reads as %q", out["text"])
			}
		}
	}
}

// TestNoTableBesides: other code must not align tables, because it would print foreign text unescaped.
func TestNoTableBesides(t *testing.T) {
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || path == "output/table.go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile("../" + path)
		if err == nil && strings.Contains(string(data), `"text/tabwriter"`) {
			t.Errorf("%s aligns a table by itself", path)
		}
		return err
	})
	testkit.Must(t, err)
}
