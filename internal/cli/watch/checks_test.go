package watch

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/provider"
)

// TestChecksFit: at 60 columns, a check's detail wraps at words below its own column, and says the same.
func TestChecksFit(t *testing.T) {
	checks := []provider.Check{{Name: "kernel settings", Result: provider.Fine, Detail: "set while machines exist: fs.inotify.max_user_watches: 192530 → 262144, net.ipv4.ip_forward: 0 → 1"},
		{Name: "bundle", Result: provider.Warning, Detail: "not available here\nyet"}}
	var wide, narrow bytes.Buffer
	if err := errors.Join(Checks(&wide, checks, 0), Checks(&narrow, checks, 60)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if a, b := strings.Fields(wide.String()), strings.Fields(narrow.String()); !slices.Equal(a, b) {
		t.Errorf("the words are %q, want %q", b, a)
	}
	if lines := strings.Split(narrow.String(), "\n"); !strings.HasPrefix(lines[2], strings.Repeat(" ", strings.Index(lines[0], "DETAIL"))+"fs.inotify") {
		t.Error(narrow.String())
	}
	if strings.Count(wide.String(), "\n") != 5 {
		t.Error(wide.String())
	}
}
